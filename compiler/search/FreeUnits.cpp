#include "compiler/search/FreeUnits.h"

#include "runtime/base/Checksum.h"

#include <unordered_set>

using namespace moert;

namespace moec {

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
