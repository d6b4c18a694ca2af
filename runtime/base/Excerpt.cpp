#include "runtime/base/Excerpt.h"

#include <cstdio>

namespace moert {

std::string excerpt(std::string_view text, size_t most) {
  bool isCut = text.size() > most;
  if (isCut) {
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80)
      --most; // Back to where a character of UTF-8 begins.
    text = text.substr(0, most);
  }
  std::string shown;
  for (char character : text) {
    auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte != 0x7f) {
      shown += character;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\x%02x", byte);
    shown += escape;
  }
  return isCut ? shown + "..." : shown;
}

} // namespace moert
