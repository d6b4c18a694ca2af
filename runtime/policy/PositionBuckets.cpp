#include "runtime/policy/PositionBuckets.h"

#include "runtime/base/DeterministicMath.h"

#include <algorithm>

namespace moert {

// The reference computes in f32, where each function is rounded once.
static float logOf(float value) {
  return static_cast<float>(deterministicLog(static_cast<double>(value)));
}

void PositionBuckets::prepare(uint32_t bucketCount, uint32_t largest, bool both) {
  if (buckets == bucketCount && maxDistance == largest && bothWays == both)
    return;
  buckets = bucketCount;
  maxDistance = largest;
  bothWays = both;
  const uint32_t own = both ? buckets / 2 : buckets, single = own / 2;
  later = buckets - own;
  const auto singles = static_cast<float>(single);
  const float scale = logOf(static_cast<float>(largest) / singles);
  for (uint32_t distance = 0; distance <= largest; ++distance) {
    uint32_t bucket = distance;
    if (distance >= single)
      bucket = std::min(
          own - 1, single + static_cast<uint32_t>(logOf(static_cast<float>(distance) / singles) /
                                                  scale * static_cast<float>(own - single)));
    byDistance[distance] = static_cast<uint8_t>(bucket);
  }
}

} // namespace moert
