#include "runtime/memory/MemoryFollower.h"

#include <algorithm>
#include <utility>

namespace moert {

const char *nameOf(BudgetReason reason) {
  switch (reason) {
  case BudgetReason::kLimit:
    return "a smaller limit";
  case BudgetReason::kPressure:
    return "memory pressure";
  case BudgetReason::kRoom:
    return "more room";
  }
  return "";
}

void MemoryFollower::waitBeforeGrowing(uint64_t nowNs, uint64_t ns) {
  growsFromNs = std::max(growsFromNs, nowNs + ns);
}

bool MemoryFollower::isPressed(const MemorySignals &signals, uint64_t nowNs) {
  if (!signals.stalledNs)
    return false;
  if (windowNs && nowNs - *windowNs < kPressureWindowNs)
    return false;
  const bool isPressed = windowNs && *signals.stalledNs > windowStalledNs &&
                         *signals.stalledNs - windowStalledNs > (nowNs - *windowNs) / 10;
  windowNs = nowNs;
  windowStalledNs = *signals.stalledNs;
  return isPressed;
}

std::optional<BudgetChange> MemoryFollower::decide(const MemorySignals &signals,
                                                   const FollowedBudget &now, uint64_t nowNs) {
  const bool pressed = isPressed(signals, nowNs);
  const uint64_t spare = now.accountedBytes - std::min(now.accountedBytes, now.smallestBytes);
  const uint64_t bound = std::max(signals.bound.bytes, now.smallestBytes);
  if (pressed)
    waitBeforeGrowing(nowNs, kQuietAfterPressureNs);
  const uint64_t enough = std::exchange(isGrowing, false) ? 0 : now.budgetBytes / 32;
  if (bound < now.accountedBytes) {
    waitBeforeGrowing(nowNs, kQuietAfterShrinkNs);
    return BudgetChange{bound, BudgetReason::kLimit};
  }
  if (pressed && spare > 0)
    return BudgetChange{now.accountedBytes - (spare + 7) / 8, BudgetReason::kPressure};
  // A budget that is not used up needs no more. A step may be smaller than an expert.
  const uint64_t step = now.budgetBytes / 64;
  const uint64_t unused = now.budgetBytes - std::min(now.budgetBytes, now.accountedBytes);
  if (unused >= 8 * step || nowNs < growsFromNs || bound <= now.budgetBytes + enough)
    return std::nullopt;
  isGrowing = bound - now.budgetBytes > step;
  return BudgetChange{isGrowing ? now.budgetBytes + step : bound, BudgetReason::kRoom, isGrowing};
}

} // namespace moert
