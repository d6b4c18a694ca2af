#include "runtime/text/chat/PythonText.h"

#include "runtime/base/Utf8.h"

#include <cstring>
#include <utf8proc.h>

namespace moert::chat {

namespace {

bool isContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

utf8proc_category_t category(uint32_t codePoint) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(codePoint));
}

/// Whether it has an upper or a lower case.
bool isCased(uint32_t codePoint) {
  const utf8proc_category_t kind = category(codePoint);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LT;
}

constexpr uint32_t kSharpS = 0xDF;
constexpr uint32_t kCapitalSigma = 0x3A3;
constexpr uint32_t kFinalSigma = 0x3C2;

void appendUpper(uint32_t codePoint, bool isTitle, std::string &out) {
  const auto character = static_cast<utf8proc_int32_t>(codePoint);
  if (codePoint == kSharpS)
    out += isTitle ? "Ss" : "SS";
  else
    appendCodePoint(
        static_cast<uint32_t>(isTitle ? utf8proc_totitle(character) : utf8proc_toupper(character)),
        out);
}

bool isLetter(uint32_t codePoint) {
  const utf8proc_category_t kind = category(codePoint);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

// A capital sigma at the end of a word becomes the final small one.
bool endsWord(std::string_view before, std::string_view after) {
  size_t lead = before.size();
  while (lead > 0 && isContinuation(before[lead - 1]))
    --lead;
  if (lead == 0 || !isLetter(firstCodePoint(before.substr(lead - 1)).value))
    return false;
  return after.empty() || !isLetter(firstCodePoint(after).value);
}

void appendLower(std::string_view text, size_t at, CodePoint character, std::string &out) {
  if (character.value == kCapitalSigma &&
      endsWord(text.substr(0, at), text.substr(at + character.length)))
    return appendCodePoint(kFinalSigma, out);
  if (character.value == 0x130) // The only lower case of two characters: i and a dot above.
    return out.append("i\xCC\x87"), void();
  appendCodePoint(static_cast<uint32_t>(utf8proc_tolower(static_cast<int32_t>(character.value))),
                  out);
}

} // namespace

size_t characterCount(std::string_view text) {
  size_t count = 0;
  for (char byte : text)
    count += !isContinuation(byte);
  return count;
}

size_t byteOfCharacter(std::string_view text, size_t character) {
  size_t at = 0;
  for (; character > 0 && at < text.size(); --character)
    at += utf8Length(text[at]);
  return at;
}

bool isPythonSpace(uint32_t codePoint) {
  return isWhiteSpace(codePoint) || (codePoint >= 0x1C && codePoint <= 0x1F);
}

std::string_view strip(std::string_view text, const std::string_view *set, StripSide side) {
  // A whole character of valid UTF-8 is found nowhere else than at a character.
  auto isStripped = [&](std::string_view character) {
    return set ? set->find(character) != std::string_view::npos
               : isPythonSpace(firstCodePoint(character).value);
  };
  while (side != StripSide::kRight && !text.empty()) {
    const uint32_t length = utf8Length(text[0]);
    if (!isStripped(text.substr(0, length)))
      break;
    text.remove_prefix(length);
  }
  while (side != StripSide::kLeft && !text.empty()) {
    size_t lead = text.size() - 1;
    while (isContinuation(text[lead]))
      --lead;
    if (!isStripped(text.substr(lead)))
      break;
    text.remove_suffix(text.size() - lead);
  }
  return text;
}

size_t leadingSpace(std::string_view text) {
  return text.size() - strip(text, nullptr, StripSide::kLeft).size();
}

size_t trailingSpace(std::string_view text) {
  return text.size() - strip(text, nullptr, StripSide::kRight).size();
}

std::string withCase(std::string_view text, Case wanted) {
  std::string out;
  out.reserve(text.size());
  bool startsWord = wanted == Case::kCapitalized || wanted == Case::kTitle;
  for (size_t at = 0; at < text.size();) {
    const CodePoint character = firstCodePoint(text.substr(at));
    if (startsWord || wanted == Case::kUpper)
      appendUpper(character.value, startsWord, out);
    else
      appendLower(text, at, character, out);
    startsWord = wanted == Case::kTitle && !isCased(character.value);
    at += character.length;
  }
  return out;
}

std::vector<std::string_view> splitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint character = firstCodePoint(text.substr(at));
    const uint32_t value = character.value;
    const size_t lineEnd = at;
    at += character.length;
    const bool isBreak = (value >= 0xA && value <= 0xD) || (value >= 0x1C && value <= 0x1E) ||
                         value == 0x85 || value == 0x2028 || value == 0x2029;
    if (!isBreak)
      continue;
    if (value == '\r' && at < text.size() && text[at] == '\n')
      ++at;
    lines.push_back(text.substr(begin, lineEnd - begin));
    begin = at;
  }
  if (begin < text.size())
    lines.push_back(text.substr(begin));
  return lines;
}

// std::string_view::find may take the product of both lengths; memmem does not.
size_t findText(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size())
    return std::string_view::npos;
  const void *found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found ? static_cast<size_t>(static_cast<const char *>(found) - text.data())
               : std::string_view::npos;
}

bool isPrintable(uint32_t codePoint) {
  if (codePoint == ' ')
    return true;
  const utf8proc_category_t kind = category(codePoint);
  return kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS;
}

} // namespace moert::chat
