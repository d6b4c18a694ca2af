// Every way of sharing pages with every eviction policy, for tests that hold for all of them.
#pragma once

#include "runtime/policy/CacheDirectory.h"

#include <vector>

namespace moert {

inline std::vector<CacheRules> allRules() {
  std::vector<CacheRules> all;
  for (CacheSharing sharing : {CacheSharing::kLayerQuotas, CacheSharing::kOnePool})
    for (size_t policy = 0; policy < kEvictionScores.size(); ++policy)
      if (kEvictionScores[policy].data == ScoreData::kNothing)
        all.push_back({EvictionPolicy(policy), sharing, PromptSurvival::kEverything});
  for (CacheSharing sharing : {CacheSharing::kLayerQuotas, CacheSharing::kOnePool})
    all.push_back(
        {EvictionPolicy::kWeighted,
         sharing,
         PromptSurvival::kEverything,
         {kFixedPointOne / 4, kFixedPointOne / 2, kFixedPointOne / 8, kFixedPointOne / 8}});
  all.push_back({.eviction = EvictionPolicy::kImportance}); // Refused in one pool.
  return all;
}

/// The same and rules that exchange experts, which have no prefetches.
inline std::vector<CacheRules> allRulesAndExchanges() {
  std::vector<CacheRules> all = allRules();
  for (const ExchangeRule &exchange : {ExchangeRule{1, 1, 3}, ExchangeRule{3, 2, 5}})
    all.push_back({.eviction = EvictionPolicy::kImportance, .exchange = exchange});
  return all;
}

} // namespace moert
