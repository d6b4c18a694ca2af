// Warns of budgets that exceed a device's memory. They are planned nevertheless, since a profile
// may represent another machine of its kind.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "compiler/session/Session.h"
#include "runtime/policy/Plan.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// Warns once of each budget beyond what one process may use on a device.
class MemoryWarnings {
public:
  /// budget: as given by the user, for example "6GiB".
  void check(const std::string &budget, uint64_t bytes, const DeviceProfile &device,
             const Session &session);

  /// Checks those of the plans that were made for one of the budgets.
  void check(std::span<const std::string> budgets, std::span<const moert::Plan> plans,
             const DeviceProfile &device, const Session &session);

private:
  std::vector<std::string> said;
};

} // namespace moec
