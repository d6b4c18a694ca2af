// Divides one memory budget between two models in one process.
#pragma once

#include "runtime/engine/Engine.h"

#include <cstdint>
#include <optional>

namespace moert::cli {

/// The smallest budget a model works with, and the largest that it can use.
struct BudgetRange {
  uint64_t smallestBytes = 0;
  uint64_t largestBytes = 0;
};

/// In bytes.
struct BudgetParts {
  uint64_t first = 0, second = 0;
};

/// Each model gets its smallest budget; the rest is divided in proportion to what each could still
/// use. nullopt if the two smallest budgets do not fit.
std::optional<BudgetParts> splitBudget(uint64_t totalBytes, const BudgetRange &first,
                                       const BudgetRange &second);

Result<BudgetRange> budgetRangeOf(const Model &model, const EngineOptions &options);

} // namespace moert::cli
