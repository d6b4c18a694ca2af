#include "runtime/policy/InstantReads.h"

#include <cassert>

namespace moert {

void actInstantly(CacheMachine &machine) {
  while (const std::optional<CacheAction> action = machine.next())
    if (action->isRead)
      (void)machine.completed(action->id, true);
}

void executeInstantly(CacheMachine &machine, uint32_t layer, const PassDemand &demand) {
  const bool isExecutable = machine.beginPass(layer, demand);
  assert(isExecutable);
  (void)isExecutable;
  for (actInstantly(machine); !machine.isAllHandedOut(); actInstantly(machine))
    machine.release(machine.handOut(false));
  machine.endPass();
  for (actInstantly(machine); !machine.settlePromotions();)
    actInstantly(machine);
  actInstantly(machine);
}

} // namespace moert
