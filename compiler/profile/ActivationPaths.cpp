#include "compiler/profile/ActivationPaths.h"

#include <algorithm>

namespace moec {

std::vector<ActivationPath> activationPaths(const LayerTrace &twoBefore,
                                            const LayerTrace &oneBefore, const LayerTrace &layer,
                                            uint32_t ranks) {
  const size_t tokens = layer.experts.size() / layer.topK;
  const uint32_t first = std::min(ranks, twoBefore.topK), second = std::min(ranks, oneBefore.topK);
  std::vector<uint64_t> taken; // The three experts in one number, so that sorting is by all three.
  taken.reserve(tokens * first * second * layer.topK);
  for (size_t token = 0; token < tokens; ++token)
    for (uint32_t i = 0; i < first; ++i)
      for (uint32_t j = 0; j < second; ++j)
        for (uint32_t k = 0; k < layer.topK; ++k)
          taken.push_back(uint64_t(twoBefore.experts[token * twoBefore.topK + i]) << 32 |
                          uint64_t(oneBefore.experts[token * oneBefore.topK + j]) << 16 |
                          layer.experts[token * layer.topK + k]);
  std::sort(taken.begin(), taken.end());
  std::vector<ActivationPath> paths;
  for (size_t begin = 0, end = 0; begin < taken.size(); begin = end) {
    while (end < taken.size() && taken[end] == taken[begin])
      ++end;
    paths.push_back({static_cast<uint16_t>(taken[begin] >> 32),
                     static_cast<uint16_t>(taken[begin] >> 16), static_cast<uint16_t>(taken[begin]),
                     static_cast<uint32_t>(end - begin)});
  }
  return paths;
}

} // namespace moec
