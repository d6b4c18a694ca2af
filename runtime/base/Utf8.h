// UTF-8 for untrusted text, and the few character properties that tokenizers need outside of
// regular expressions.
#pragma once

#include <cstdint>
#include <optional>
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

constexpr uint32_t kLastCodePoint = 0x10FFFF;

/// The character that an escape's hexadecimal digits, all of them, are; absent: none.
std::optional<uint32_t> codePointOf(std::string_view hexadecimal);

constexpr bool isAsciiDigit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool isAsciiLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// A place in valid UTF-8 that is read from its beginning.
class TextReader {
protected:
  explicit TextReader(std::string_view whole) : text(whole) {}

  bool atEnd() const { return position == text.size(); }
  bool next(std::string_view wanted) const { return text.substr(position).starts_with(wanted); }
  bool accept(std::string_view wanted) {
    const bool isNext = next(wanted);
    position += isNext ? wanted.size() : 0;
    return isNext;
  }
  CodePoint takeCharacter() {
    const CodePoint character = firstCodePoint(text.substr(position));
    position += character.length;
    return character;
  }

  std::string_view text;
  size_t position = 0; // The next byte to read.
};

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
