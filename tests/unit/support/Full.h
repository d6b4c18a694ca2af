// Whether tests take as long as they need: tools/test --full sets MOE_FULL.
#pragma once

#include <cstdlib>
#include <string_view>

namespace moert::test {

inline bool isFull() {
  const char *full = std::getenv("MOE_FULL");
  return full && std::string_view(full) == "1";
}

} // namespace moert::test
