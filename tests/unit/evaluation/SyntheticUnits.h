// Populations of units with a known ratio, to draw samples from: what the coverage of a bound is
// measured on.
#pragma once

#include "runtime/base/RandomStream.h"
#include "runtime/evaluation/RatioBound.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moert::test {

/// How losses are distributed, with mean 1: around it, with the tail exp(normal) of sigma 1, or one
/// in ten with ten times the loss of the others.
enum class LossFamily { kNormal, kLognormal, kTwoMode };

/// A unit is a document of windows. A document's loss is drawn from the family; its windows' losses
/// scatter around it. `betweenOverWithin` is the variance of documents over that of windows; at 0
/// all documents have the same loss, and it is the windows' losses that are of the family.
struct Population {
  LossFamily family;
  double betweenOverWithin;
  uint32_t units;
  bool hasUnequalUnits; // 1 to 30 windows; otherwise 1.
  bool hasUnequalFiles; // 1, 2, a tenth, a quarter of the units, and the rest; otherwise a fifth.

  std::string name() const;
};

struct Draw {
  std::vector<RatioUnit> units;
  double truth = 0; // The ratio in the population.
};

/// The files' mean losses differ by up to a factor of three.
Draw drawUnits(const Population &population, RandomStream &random);

/// Three standard errors of a fraction of so many draws, and half a draw, below the level.
double leastCoverage(double level, uint32_t draws);

/// All that the coverage is measured on: each family, variance, number and kind of sizes.
std::vector<Population> allPopulations();

} // namespace moert::test
