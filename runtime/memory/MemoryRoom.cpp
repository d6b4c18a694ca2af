#include "runtime/memory/MemoryRoom.h"

#include "runtime/base/Size.h"

namespace moert {

static const char *ownerOf(const MemoryBound &bound) {
  return bound.isOfContainer ? "this container" : "this machine";
}

Status checkBudgetLimit(const BudgetSize &budget, const SystemMemory &system) {
  if (budget.expertFraction || budget.bytes <= system.limit.bytes)
    return {};
  return invalidInput("a memory budget of ", formatExactBytes(budget.bytes), ": ",
                      ownerOf(system.limit), " has ", formatExactBytes(system.limit.bytes),
                      "; without a budget, what is free of it is used");
}

Status checkRoom(const MemoryAccount &account, const SystemMemory &system) {
  const uint64_t loaded = account.loadedBytes();
  if (loaded <= system.room.bytes)
    return {};
  return invalidInput("loading takes ", formatExactBytes(loaded), " of a memory budget of ",
                      formatExactBytes(account.budgetBytes), ", ", ownerOf(system.room),
                      " has room for ", formatExactBytes(system.room.bytes),
                      "; without a budget, what is free is used");
}

Status checkGrowth(const MemoryAccount &before, const MemoryAccount &after,
                   const SystemMemory &system) {
  const uint64_t held = before.loadedBytes(), wanted = after.loadedBytes();
  if (wanted <= held || wanted - held <= system.room.bytes)
    return {};
  return invalidInput("a memory budget of ", formatExactBytes(after.budgetBytes), " takes ",
                      formatExactBytes(wanted - held), " more, ", ownerOf(system.room),
                      " has room for ", formatExactBytes(system.room.bytes));
}

} // namespace moert
