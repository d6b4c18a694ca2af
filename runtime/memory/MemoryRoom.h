// Whether the machine and the container have what a budget says. A process that takes more is
// killed by the system, without a word.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/memory/MemoryBudget.h"

namespace moert {

/// kInvalidInput for a number of bytes that is beyond the limit of machine or container, whoever
/// holds the memory by now. A fraction of the expert bytes is checked by its account alone.
Status checkBudgetLimit(const BudgetSize &budget, const SystemMemory &system);

/// kInvalidInput where loading takes more than there is room for now. For budgets that somebody
/// gave, just before loading.
Status checkRoom(const MemoryAccount &account, const SystemMemory &system);

/// kInvalidInput where changing from one account to another takes more than there is room for now.
Status checkGrowth(const MemoryAccount &before, const MemoryAccount &after,
                   const SystemMemory &system);

} // namespace moert
