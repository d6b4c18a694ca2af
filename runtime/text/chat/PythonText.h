// Python's view of text: characters are code points, and case, white space and lines are Unicode's.
// Every text here is valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert::chat {

size_t characterCount(std::string_view text);
/// The byte at which that character starts; the text's size if it has fewer.
size_t byteOfCharacter(std::string_view text, size_t character);

/// What str.isspace() and a regular expression's \s accept.
bool isPythonSpace(uint32_t codePoint);
/// Number of white-space bytes at the front and at the end.
size_t leadingSpace(std::string_view text);
size_t trailingSpace(std::string_view text);

enum class StripSide { kLeft, kRight, kBoth };
/// Without the characters of `set` at those ends; without white space if set is null.
std::string_view strip(std::string_view text, const std::string_view *set, StripSide side);

/// What str.upper(), lower(), capitalize() and title() make of a text.
enum class Case { kUpper, kLower, kCapitalized, kTitle };
/// By Unicode's simple mapping of each character; also the sharp s, whose upper case is SS.
std::string withCase(std::string_view text, Case wanted);

/// The lines, without their ends. Python's str.splitlines() ends lines at more than line feeds.
std::vector<std::string_view> splitLines(std::string_view text);

/// The place of the first occurrence from byte `from`, or npos. Takes linear time.
size_t findText(std::string_view text, std::string_view wanted, size_t from = 0);

/// Whether repr() shows the character itself.
bool isPrintable(uint32_t codePoint);

} // namespace moert::chat
