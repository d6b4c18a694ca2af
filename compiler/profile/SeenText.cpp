#include "compiler/profile/SeenText.h"

#include <algorithm>

namespace moec {

void SeenText::add(std::span<const int32_t> tokens, uint32_t windowTokens) {
  for (size_t begin = 0; begin + windowTokens <= tokens.size(); begin += windowTokens)
    for (size_t i = begin; i + kRun <= begin + windowTokens; ++i)
      hashes.insert(hashOf(tokens.subspan(i, kRun)));
}

bool SeenText::contains(std::span<const int32_t> window) const {
  for (size_t i = 0; i + kRun <= window.size(); ++i)
    if (hashes.contains(hashOf(window.subspan(i, kRun))))
      return true;
  return false;
}

std::vector<uint64_t> SeenText::runs() const {
  std::vector<uint64_t> ascending(hashes.begin(), hashes.end());
  std::ranges::sort(ascending);
  return ascending;
}

} // namespace moec
