#include "runtime/format/NgramRows.h"

#include <algorithm>

namespace moert {

static bool isPrime(uint64_t value) {
  if (value < 4)
    return value >= 2;
  if (value % 2 == 0)
    return false;
  for (uint64_t divisor = 3; divisor * divisor <= value; divisor += 2)
    if (value % divisor == 0)
      return false;
  return true;
}

/// SplitMix64 (Steele, Lea and Flood 2014).
static constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;
static uint64_t mix(uint64_t value) {
  value += kGamma;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

NgramRows::NgramRows(const EmbedNgramsInstruction &of, uint64_t vocabulary) {
  const uint64_t most = INT64_MAX / std::max<uint64_t>(vocabulary, 1);
  const uint64_t range = std::max<uint64_t>(1, most / 2);
  const uint64_t seed = of.seed + uint64_t{10007} * of.number;
  for (uint64_t token = 0; token < of.tokens; ++token)
    multipliers.push_back(2 * (mix(seed + kGamma * (token + 1)) % range) + 1);
  const uint64_t heads = uint64_t(of.tokens - 1) * of.heads;
  uint64_t prime = uint64_t(of.leastRows) - 1, next = 0;
  for (uint64_t head = 0; head < heads * (of.number + uint64_t{1}); ++head) {
    do
      ++prime;
    while (!isPrime(prime));
    if (head < heads * of.number)
      continue;
    sizes.push_back(prime);
    firstRows.push_back(next);
    next += prime;
  }
}

} // namespace moert
