// The values of non-linear codes: kinds nl2, nl3 and nl4 and their refinements, in steps of the
// scale. A group's largest weight decides its scale, so most weights are small beside the outermost
// level; levels that are denser near 0 then have a smaller error than evenly spaced ones
// (ggml-org/ggml's IQ4_NL is such a table). Levels have 6 bits, so kernels multiply them like codes
// of 6 bits.
//
// They are a part of the format: docs/format.md has the same numbers.
#pragma once

#include <cstdint>

namespace moert {

/// Added to a level where it is stored as an unsigned byte.
constexpr int32_t kLevelZero = 32;

/// The most bits of a non-linear code.
constexpr uint32_t kMaxLevelBits = 4;

/// The level of each code + kLevelZero; 0 for codes that do not exist.
struct CodeLevels {
  uint8_t of[16];
};

/// Levels of codes of `bits` bits, 2 to kMaxLevelBits, of which all are read but `missing` low
/// ones, at least 2: the mean of the levels that begin with the bits that are read, rounded to the
/// nearest, half up.
constexpr CodeLevels levelsOf(uint32_t bits, uint32_t missing) {
  constexpr int8_t kLevels[3][16] = {
      {-31, -10, 5, 22},
      {-31, -18, -10, -4, 2, 9, 16, 25},
      {-31, -23, -18, -14, -10, -7, -4, -1, 1, 4, 7, 10, 13, 17, 22, 27},
  };
  CodeLevels levels = {};
  const int32_t covered = 1 << missing;
  for (int32_t code = 0; code < 1 << (bits - missing); ++code) {
    int32_t sum = 0;
    for (int32_t i = 0; i < covered; ++i)
      sum += kLevels[bits - 2][code * covered + i] + kLevelZero;
    levels.of[code] = static_cast<uint8_t>((sum + covered / 2) / covered);
  }
  return levels;
}

/// levelsOf(bits, missing) at [bits - 2][missing].
struct LevelTables {
  CodeLevels levels[kMaxLevelBits - 1][kMaxLevelBits - 1];
};
constexpr LevelTables makeLevelTables() {
  LevelTables tables = {};
  for (uint32_t bits = 2; bits <= kMaxLevelBits; ++bits)
    for (uint32_t missing = 0; missing <= bits - 2; ++missing)
      tables.levels[bits - 2][missing] = levelsOf(bits, missing);
  return tables;
}
constexpr LevelTables kLevelTables = makeLevelTables();

/// The levels of both codes of 2 bits in half a byte: 16 of the low code, then 16 of the high one.
/// For codes that are the first 2 bits of 2 to kMaxLevelBits.
struct PairLevels {
  uint8_t of[32];
};
constexpr PairLevels pairLevelsOf(uint32_t missing) {
  const CodeLevels levels = levelsOf(2 + missing, missing);
  PairLevels pairs = {};
  for (uint32_t both = 0; both < 16; ++both) {
    pairs.of[both] = levels.of[both & 3];
    pairs.of[16 + both] = levels.of[both >> 2];
  }
  return pairs;
}
constexpr PairLevels kPairLevels[kMaxLevelBits - 1] = {pairLevelsOf(0), pairLevelsOf(1),
                                                       pairLevelsOf(2)};

} // namespace moert
