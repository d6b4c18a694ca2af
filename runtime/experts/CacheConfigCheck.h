// Whether a cache can work as configured, which comes from files and from the user's budget, and
// what follows from the configuration.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/experts/ExpertCache.h"

#include <cstdint>

namespace moert {

/// kInvalidInput with the numbers that do not fit together.
Status checkCacheConfig(const CacheConfig &config, const ReadQueue &queue);

/// How many experts can be in memory at once, at most.
uint64_t mostExpertsHeld(const CacheConfig &config);

/// Room for the page lists of so many experts, all of them free.
void makeLists(const CacheConfig &config, uint64_t pagesPerList,
               std::vector<std::byte *> &pageLists, std::vector<uint32_t> &freeLists);

/// A directory of the configuration's layers and experts, without contents.
CacheDirectory directoryOf(const CacheConfig &config);

} // namespace moert
