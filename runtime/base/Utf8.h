// UTF-8 for untrusted text, and the few character properties that tokenizers need outside of
// regular expressions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

enum class Utf8Kind {
  kValid,     // A whole character.
  kInvalid,   // The maximal part of a broken sequence; replaced by one U+FFFD.
  kTruncated, // The bytes end inside a sequence that may become a character.
};

struct Utf8Sequence {
  Utf8Kind kind;
  uint32_t length;
};

/// Classifies the sequence at the start of bytes, which must not be empty.
Utf8Sequence nextUtf8(std::string_view bytes);

bool isValidUtf8(std::string_view bytes);

/// Whether the character at the start of text may go to a terminal and into JSON; `sequence` is
/// nextUtf8() of text. Control characters could change the terminal, broken UTF-8 the JSON.
bool isPlain(std::string_view text, Utf8Sequence sequence);

/// Whether all characters are plain.
bool isPlainText(std::string_view text);

/// Appends bytes, with U+FFFD for each broken part. Returns the number of bytes at the end that
/// were left out because they may be the start of a character; with atEnd these become U+FFFD too,
/// and the result is 0.
size_t appendLossyUtf8(std::string_view bytes, bool atEnd, std::string &out);

struct CodePoint {
  uint32_t value;
  uint32_t length;
};

/// The first character of text, which is valid UTF-8 and not empty.
CodePoint firstCodePoint(std::string_view text);

void appendCodePoint(uint32_t value, std::string &out);

/// The length in bytes of the character that starts with this byte of valid UTF-8.
inline uint32_t utf8Length(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Unicode's White_Space.
bool isWhiteSpace(uint32_t codePoint);

/// Number of bytes of white space at the front and at the end of valid UTF-8.
size_t leadingWhiteSpace(std::string_view text);
size_t trailingWhiteSpace(std::string_view text);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

} // namespace moert
