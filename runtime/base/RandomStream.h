// The project's random numbers: xoshiro256++ (Blackman and Vigna, 2019), its state filled from the
// seed by splitmix64. Integer arithmetic only, so a seed gives the same numbers on every machine.
// Not for cryptography.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace moert {

/// Owned and used by one thread.
class RandomStream {
public:
  explicit RandomStream(uint64_t seed) {
    for (uint64_t &word : state)
      word = splitMix(seed);
  }

  uint64_t next() {
    uint64_t result = std::rotl(state[0] + state[3], 23) + state[0];
    uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = std::rotl(state[3], 45);
    return result;
  }

  /// In [0, 1): a multiple of 2^-53.
  double nextUnit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// In [0, bound), bound above 0: the high half of a 64-bit product, whose bias is below 2^-32.
  uint32_t nextBelow(uint32_t bound) {
    return static_cast<uint32_t>(((next() >> 32) * uint64_t(bound)) >> 32);
  }

private:
  static uint64_t splitMix(uint64_t &seed) {
    uint64_t z = (seed += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  std::array<uint64_t, 4> state;
};

} // namespace moert
