#include "runtime/policy/Prefetches.h"

#include <algorithm>

namespace moert {

static bool isLeaving(const CacheDirectory &directory, uint32_t id) {
  std::span<const uint32_t> unkept = directory.unkept();
  return directory.at(id).isHeld && std::find(unkept.begin(), unkept.end(), id) != unkept.end();
}

bool prefetchesAnything(std::span<const PrefetchRule> rules) {
  return std::any_of(rules.begin(), rules.end(),
                     [](const PrefetchRule &rule) { return rule.predictor != Predictor::kOff; });
}

void selectPrefetches(const PrefetchRule &rule, const CacheDirectory &directory, uint32_t layer,
                      std::span<const PrefetchCandidate> candidates, std::vector<uint32_t> &absent,
                      std::vector<uint32_t> &leaving) {
  if (rule.predictor == Predictor::kOff || !directory.isPrefetchable(layer))
    return;
  uint32_t reads = 0;
  for (const PrefetchCandidate &candidate :
       candidates.first(std::min<size_t>(rule.candidates, candidates.size()))) {
    if (reads == rule.reads || candidate.probability < rule.minProbability)
      return;
    uint32_t id = directory.idOf(layer, candidate.expert);
    const DirectoryEntry &entry = directory.at(id);
    if (isLeaving(directory, id))
      leaving.push_back(id);
    if (entry.isHeld || entry.isPrefetch)
      continue;
    absent.push_back(id);
    ++reads;
  }
}

} // namespace moert
