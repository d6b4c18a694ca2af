// Divides a cache among layers by a genetic algorithm, as SwapMoE does (Kong et al. 2023, sections
// 3.5.2 and 4): configurations are changed, exchanged and averaged; those that do not fit or are
// worse than others are removed.
#pragma once

#include "runtime/policy/CacheAllotment.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace moec {

/// The paper's numbers (section 4).
struct GeneticOptions {
  uint32_t population = 50;
  double mutationRate = 0.5;
  double crossoverRate = 0.01;
  uint32_t generations = 5000;
  uint64_t seed = 0;
};

/// How many experts of each layer are in memory: at least one, at most all.
using ExpertCounts = std::vector<uint32_t>;

struct GeneticProblem {
  const moert::CacheShape &shape;
  uint64_t quotaPages = 0; // All layers together: at least one record of each.
  /// What is minimized.
  const std::function<double(std::span<const uint32_t>)> &lossOf;
};

/// Pages of so many of the largest records of a layer, at most all of its records'.
uint64_t pagesOf(const moert::CacheShape::Layer &layer, uint32_t experts);

/// The best configuration that was found. The paper changes one layer at a time; as a full cache
/// then never gives a layer more, what a change lacks is taken from another layer. The same problem
/// and options give the same configuration.
ExpertCounts evolveCounts(const GeneticProblem &problem, const GeneticOptions &options = {});

} // namespace moec
