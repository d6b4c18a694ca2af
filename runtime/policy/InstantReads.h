// A CacheMachine whose reads complete as they begin: for replays without time, and where a cache's
// decisions are needed but not its bytes.
#pragma once

#include "runtime/policy/CacheMachine.h"

#include <cstdint>

namespace moert {

/// Carries out all actions that the machine has.
void actInstantly(CacheMachine &machine);

/// A whole layer pass, which the machine accepts. Its counts, and those of what happened before it,
/// remain with the machine.
void executeInstantly(CacheMachine &machine, uint32_t layer, const PassDemand &demand);

} // namespace moert
