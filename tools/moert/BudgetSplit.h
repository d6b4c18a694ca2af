// One budget for two models in one process.
#pragma once

#include "moert/Engine.h"

#include <cstdint>
#include <optional>

namespace moert::cli {

/// What a model can work with, and what more than that would be of no use to it.
struct BudgetRange {
  uint64_t smallestBytes = 0;
  uint64_t largestBytes = 0;
};

struct BudgetShares {
  uint64_t first = 0, second = 0;
};

/// Each gets its smallest budget; the rest goes to both in proportion to what they could still use.
/// Nothing where the two smallest do not fit.
std::optional<BudgetShares> splitBudget(uint64_t totalBytes, const BudgetRange &first,
                                        const BudgetRange &second);

/// By asking accountMemory(), which is pure arithmetic.
Result<BudgetRange> budgetRangeOf(const Model &model, const EngineOptions &options);

} // namespace moert::cli
