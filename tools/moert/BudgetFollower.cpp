#include "tools/moert/BudgetFollower.h"

#include "runtime/base/Clock.h"
#include "runtime/base/Size.h"
#include "tools/console/OutputStream.h"

namespace moert::cli {

BudgetFollower::BudgetFollower(Engine &followingEngine, uint64_t smallestBytes)
    : engine(followingEngine), smallest(smallestBytes), largest(followingEngine.account()) {}

Status BudgetFollower::follow(std::optional<uint32_t> position) {
  const uint64_t now = monotonicNs();
  if (now < nextLookNs)
    return {};
  nextLookNs = now + kLookNs;
  const FollowedBudget budget = {engine.account().budgetBytes, engine.account().totalBytes(),
                                 smallest};
  const std::optional<BudgetChange> wished = follower.decide(memorySignals(), budget, now);
  return wished ? change(*wished, position) : Status();
}

Status BudgetFollower::set(const BudgetSize &budget) {
  MOERT_RETURN_IF_ERROR(engine.setBudget(budget));
  if (engine.account().budgetBytes > largest.budgetBytes)
    largest = engine.account();
  return {};
}

Status BudgetFollower::change(const BudgetChange &wished, std::optional<uint32_t> position) {
  const uint64_t begin = monotonicNs();
  const uint64_t before = engine.account().budgetBytes;
  Status changed = set({wished.bytes, {}});
  const uint64_t end = monotonicNs();
  if (changed.code() == StatusCode::kInvalidInput) { // The room has gone since the look.
    follower.refused(end);
    return {};
  }
  MOERT_RETURN_IF_ERROR(changed);
  const MemoryAccount &account = engine.account();
  const std::string &plan = engine.model().artifact().plans[account.plan].name;
  if (position)
    made.push_back({*position, account.budgetBytes, account.totalBytes(), plan,
                    nameOf(wished.reason), end - begin});
  if (wished.isStep) {
    grownFrom = grownFrom ? grownFrom : before;
    return {};
  }
  const uint64_t from = wished.reason == BudgetReason::kRoom ? grownFrom.value_or(before) : before;
  grownFrom.reset();
  // The text being generated may share the terminal.
  writeError(strCat(isOutputTerminal() && isErrorTerminal() ? "\n" : "", "budget     ",
                    formatBytes(from), " -> ", formatBytes(account.budgetBytes), ": ",
                    nameOf(wished.reason), "; plan ", plan, "\n"));
  return {};
}

} // namespace moert::cli
