#include "compiler/search/SeenText.h"

using namespace moert;

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

std::vector<UnitPlace> freeUnits(std::span<const TextWindows *const> texts, const SeenText &seen) {
  std::vector<UnitPlace> units;
  std::unordered_set<uint64_t> taken;
  for (size_t t = 0; t < texts.size(); ++t) {
    const TextWindows &windows = *texts[t];
    for (size_t begin = 0, end = 0; begin < windows.windows(); begin = end) {
      bool isSeen = false;
      for (; end < windows.windows() && windows.units[end] == windows.units[begin]; ++end)
        isSeen = isSeen || seen.contains(windows.window(end));
      const auto tokens =
          std::span(windows.tokens)
              .subspan(begin * windows.windowTokens, (end - begin) * windows.windowTokens);
      if (!isSeen && taken.insert(checksum64(std::as_bytes(tokens))).second)
        units.push_back({t, begin, end - begin});
    }
  }
  return units;
}

} // namespace moec
