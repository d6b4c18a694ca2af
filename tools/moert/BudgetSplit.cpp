#include "tools/moert/BudgetSplit.h"

#include <algorithm>

namespace moert::cli {

/// More than any machine has, and far below overflow.
constexpr uint64_t kUnlimitedBytes = uint64_t(1) << 60;
constexpr uint64_t kPrecisionBytes = 4096;

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
  auto accountWithin = [&](uint64_t bytes) {
    EngineOptions limited = options;
    limited.memory = BudgetSize{bytes, {}};
    return accountMemory(model, limited);
  };
  MOERT_ASSIGN_OR_RETURN(MemoryAccount largest, accountWithin(kUnlimitedBytes));
  uint64_t refused = 0, accepted = largest.totalBytes();
  while (accepted - refused > kPrecisionBytes) {
    uint64_t middle = refused + (accepted - refused) / 2;
    (accountWithin(middle).isOk() ? accepted : refused) = middle;
  }
  return BudgetRange{accepted, largest.totalBytes()};
}

} // namespace moert::cli
