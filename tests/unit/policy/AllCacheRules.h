// Every way of sharing pages with every eviction policy, for tests that hold for all of them.
#pragma once

#include "runtime/policy/CacheDirectory.h"

#include <vector>

namespace moert {

inline std::vector<CacheRules> allRules() {
  std::vector<CacheRules> all;
  for (CacheSharing sharing : {CacheSharing::kLayerQuotas, CacheSharing::kOnePool})
    for (EvictionPolicy policy :
         {EvictionPolicy::kLru, EvictionPolicy::kLfu, EvictionPolicy::kEdgeMoe,
          EvictionPolicy::kArc, EvictionPolicy::kLeastStale, EvictionPolicy::kReuseDistance})
      all.push_back({policy, sharing, PromptSurvival::kEverything});
  for (CacheSharing sharing : {CacheSharing::kLayerQuotas, CacheSharing::kOnePool})
    all.push_back(
        {EvictionPolicy::kWeighted,
         sharing,
         PromptSurvival::kEverything,
         {kFixedPointOne / 4, kFixedPointOne / 2, kFixedPointOne / 8, kFixedPointOne / 8}});
  return all;
}

} // namespace moert
