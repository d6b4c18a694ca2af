#include "tools/moert/BudgetSplit.h"

#include <algorithm>

namespace moert::cli {

/// More than any machine has, and far below overflow.
constexpr uint64_t kUnlimitedBytes = uint64_t(1) << 60;

std::optional<BudgetParts> splitBudget(uint64_t totalBytes, const BudgetRange &first,
                                       const BudgetRange &second) {
  if (first.smallestBytes > totalBytes || second.smallestBytes > totalBytes - first.smallestBytes)
    return std::nullopt;
  const uint64_t rest = totalBytes - first.smallestBytes - second.smallestBytes;
  const uint64_t wantedByFirst = first.largestBytes - first.smallestBytes;
  const uint64_t wantedBySecond = second.largestBytes - second.smallestBytes;
  if (rest >= wantedByFirst + wantedBySecond)
    return BudgetParts{first.largestBytes, second.largestBytes};
  double fraction = double(wantedByFirst) / (double(wantedByFirst) + double(wantedBySecond));
  uint64_t toFirst = std::min(static_cast<uint64_t>(fraction * double(rest)), rest);
  return BudgetParts{first.smallestBytes + toFirst, second.smallestBytes + rest - toFirst};
}

Result<BudgetRange> budgetRangeOf(const Model &model, const EngineOptions &options) {
  EngineOptions unlimited = options;
  unlimited.memory = BudgetSize{kUnlimitedBytes, {}};
  MOERT_ASSIGN_OR_RETURN(const MemoryAccount largest, accountMemory(model, unlimited));
  MOERT_ASSIGN_OR_RETURN(const uint64_t smallest, smallestBudget(model, options));
  return BudgetRange{smallest, largest.totalBytes()};
}

} // namespace moert::cli
