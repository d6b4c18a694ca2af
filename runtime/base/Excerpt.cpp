#include "runtime/base/Excerpt.h"

#include "runtime/base/Utf8.h"

#include <cstdio>

namespace moert {

/// Control characters except the kept ones, and broken UTF-8, as \xNN.
static std::string escaped(std::string_view text, std::string_view kept) {
  std::string shown;
  while (!text.empty()) {
    const Utf8Sequence sequence = nextUtf8(text);
    const std::string_view character = text.substr(0, sequence.length);
    text.remove_prefix(sequence.length);
    if (isPlain(character, sequence) || kept.find(character) != std::string_view::npos) {
      shown += character;
      continue;
    }
    for (char byte : character) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(byte));
      shown += escape;
    }
  }
  return shown;
}

std::string excerpt(std::string_view text, size_t most) {
  if (text.size() <= most)
    return escaped(text, "");
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80)
    --most; // Back to the first byte of a UTF-8 character.
  return escaped(text.substr(0, most), "") + "...";
}

std::string printable(std::string_view text) {
  return escaped(text, "\n\t");
}

} // namespace moert
