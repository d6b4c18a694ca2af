#include "compiler/planning/DeviceMemory.h"

#include "runtime/base/Size.h"

#include <algorithm>

using namespace moert;

namespace moec {

void MemoryWarnings::check(const std::string &budget, uint64_t bytes, const DeviceProfile &device,
                           const Session &session) {
  const Quantity &available = device.availableMemoryBytes;
  const auto there = static_cast<uint64_t>(available.value);
  if (bytes <= there || !session.say)
    return;
  std::string line = strCat("warning: budget ", budget, ", ", formatExactBytes(bytes),
                            ", is more than a process may use on ", device.name, ": ",
                            formatExactBytes(there), ", ", nameOf(available.origin), ", of ",
                            formatBytes(static_cast<uint64_t>(device.totalMemoryBytes.value)));
  if (std::ranges::find(said, line) != said.end())
    return;
  session.say(line);
  said.push_back(std::move(line));
}

void MemoryWarnings::check(std::span<const std::string> budgets, std::span<const Plan> plans,
                           const DeviceProfile &device, const Session &session) {
  for (const std::string &budget : budgets)
    for (const Plan &plan : plans)
      if (plan.name == budget || plan.name == strCat(budget, " ", plan.preset))
        check(budget, plan.budgetBytes, device, session);
}

} // namespace moec
