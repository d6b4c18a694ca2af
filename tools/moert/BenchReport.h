// The results of a bench, as text and as JSON.
#pragma once

#include "runtime/serving/Generation.h"
#include "tools/moert/LoadedModel.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moert::cli {

struct BenchNumbers {
  std::vector<GenerationNumbers> repeats; // At least one.
  std::vector<uint64_t> decodeNs;         // One per generated token, over all repeats.
};

struct Spread {
  double median = 0, smallest = 0, largest = 0;
};

/// Needs at least one value; the median of an even number is the mean of the middle two.
Spread spreadOf(std::vector<double> values);

/// The smallest value that at least this fraction of the values do not exceed (nearest
/// rank). Needs at least one value.
uint64_t quantile(std::vector<uint64_t> values, double fraction);

/// What the bench ran on.
struct BenchMaterial {
  std::string text; // The files that the prompts were cut from; empty: random ids.
  bool isGiven = false;
  uint32_t warmUps = 0; // Prompts run before the measured ones.
};

std::string benchText(const BenchNumbers &numbers, const BenchMaterial &material,
                      const LoadedModel &loaded);
std::string benchJson(const BenchNumbers &numbers, const BenchMaterial &material,
                      const LoadedModel &loaded);

} // namespace moert::cli
