// UTF-8, for all who take text from a stranger, and the few character properties that tokenizers
// ask for outside of regular expressions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

enum class Utf8Kind {
  kValid,     // A whole character.
  kInvalid,   // The maximal part of a broken sequence: one U+FFFD stands for it.
  kTruncated, // The bytes end inside of what may become a character.
};

struct Utf8Sequence {
  Utf8Kind kind;
  uint32_t length;
};

/// Classifies the sequence at the start of bytes, which are not empty.
Utf8Sequence nextUtf8(std::string_view bytes);

bool isValidUtf8(std::string_view bytes);

/// Whether the character at the start of text, of which nextUtf8() says sequence, may go to a
/// terminal and into JSON: control characters could change the one, broken UTF-8 the other.
bool isPlain(std::string_view text, Utf8Sequence sequence);

/// Whether all characters may.
bool isPlainText(std::string_view text);

/// Appends bytes, with U+FFFD for each broken part. Returns how many bytes at the end were left out
/// because they may be the start of a character; with atEnd these become U+FFFD too, and 0 is
/// returned.
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
