#include "runtime/base/Utf8.h"

#include <charconv>
#include <cstring>

namespace moert {

// The well-formed sequences of the Unicode standard, table 3-7: the lead byte determines the length
// and the range of the second byte; all later bytes are 80..BF.
Utf8Sequence nextUtf8(std::string_view bytes) {
  auto byteAt = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  unsigned lead = byteAt(0);
  if (lead < 0x80)
    return {Utf8Kind::kValid, 1};
  if (lead < 0xC2 || lead > 0xF4)
    return {Utf8Kind::kInvalid, 1};
  uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (uint32_t i = 1; i < length; ++i) {
    if (i == bytes.size())
      return {Utf8Kind::kTruncated, i};
    if (byteAt(i) < low || byteAt(i) > high)
      return {Utf8Kind::kInvalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::kValid, length};
}

bool isValidUtf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    uint64_t eight = 0;
    if (bytes.size() - i >= sizeof(eight)) {
      std::memcpy(&eight, bytes.data() + i, sizeof(eight));
      if ((eight & 0x8080808080808080) == 0) {
        i += sizeof(eight);
        continue;
      }
    }
    Utf8Sequence sequence = nextUtf8(bytes.substr(i));
    if (sequence.kind != Utf8Kind::kValid)
      return false;
    i += sequence.length;
  }
  return true;
}

bool isPlain(std::string_view text, Utf8Sequence sequence) {
  const auto first = static_cast<unsigned char>(text.front());
  // U+0080 to U+009F, the second set of control characters, begin with C2 and end below A0.
  const bool isControl =
      first < 0x20 || first == 0x7f ||
      (first == 0xc2 && sequence.length == 2 && static_cast<unsigned char>(text[1]) < 0xa0);
  return sequence.kind == Utf8Kind::kValid && !isControl;
}

bool isPlainText(std::string_view text) {
  while (!text.empty()) {
    const Utf8Sequence sequence = nextUtf8(text);
    if (!isPlain(text, sequence))
      return false;
    text.remove_prefix(sequence.length);
  }
  return true;
}

size_t appendLossyUtf8(std::string_view bytes, bool atEnd, std::string &out) {
  size_t copied = 0; // All bytes before it are in out.
  for (size_t i = 0; i < bytes.size();) {
    Utf8Sequence sequence = nextUtf8(bytes.substr(i));
    if (sequence.kind != Utf8Kind::kValid) {
      out.append(bytes, copied, i - copied);
      if (sequence.kind == Utf8Kind::kTruncated && !atEnd)
        return sequence.length;
      out.append(kReplacementCharacter);
      copied = i + sequence.length;
    }
    i += sequence.length;
  }
  out.append(bytes, copied);
  return 0;
}

CodePoint firstCodePoint(std::string_view text) {
  auto byteAt = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[i]));
  };
  uint32_t length = utf8Length(text[0]);
  if (length == 1)
    return {byteAt(0), 1};
  uint32_t value = byteAt(0) & (0xFFU >> (length + 1));
  for (uint32_t i = 1; i < length; ++i)
    value = value << 6 | (byteAt(i) & 0x3F);
  return {value, length};
}

std::optional<uint32_t> codePointOf(std::string_view hexadecimal) {
  uint32_t value = 0;
  const char *const last = hexadecimal.data() + hexadecimal.size();
  const auto [end, fault] = std::from_chars(hexadecimal.data(), last, value, 16);
  if (fault != std::errc() || end != last || value > kLastCodePoint ||
      (value >= 0xD800 && value <= 0xDFFF))
    return {};
  return value;
}

void appendCodePoint(uint32_t value, std::string &out) {
  auto append = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (value < 0x80)
    return append(value);
  if (value < 0x800) {
    append(0xC0 | value >> 6);
  } else {
    if (value < 0x10000) {
      append(0xE0 | value >> 12);
    } else {
      append(0xF0 | value >> 18);
      append(0x80 | (value >> 12 & 0x3F));
    }
    append(0x80 | (value >> 6 & 0x3F));
  }
  append(0x80 | (value & 0x3F));
}

bool isWhiteSpace(uint32_t codePoint) {
  return (codePoint >= 0x9 && codePoint <= 0xD) || codePoint == 0x20 || codePoint == 0x85 ||
         codePoint == 0xA0 || codePoint == 0x1680 || (codePoint >= 0x2000 && codePoint <= 0x200A) ||
         codePoint == 0x2028 || codePoint == 0x2029 || codePoint == 0x202F || codePoint == 0x205F ||
         codePoint == 0x3000;
}

size_t leadingWhiteSpace(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    CodePoint character = firstCodePoint(text.substr(end));
    if (!isWhiteSpace(character.value))
      break;
    end += character.length;
  }
  return end;
}

size_t trailingWhiteSpace(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    size_t lead = begin - 1;
    while ((static_cast<unsigned char>(text[lead]) & 0xC0) == 0x80)
      --lead;
    if (!isWhiteSpace(firstCodePoint(text.substr(lead)).value))
      break;
    begin = lead;
  }
  return text.size() - begin;
}

} // namespace moert
