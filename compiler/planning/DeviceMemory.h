// Budgets that a device has no memory for: planned as asked, since a profile may stand for another
// machine of its kind, but not in silence.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "compiler/session/Session.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// Says a line for each budget beyond what one process may take on a device, and none twice.
class MemoryWarnings {
public:
  /// budget: as a person knows it, "6GiB" say.
  void check(const std::string &budget, uint64_t bytes, const DeviceProfile &device,
             const Session &session);

  /// The budgets of plans; those that no budget was given for have none.
  void check(std::span<const moert::Plan> plans, const DeviceProfile &device,
             const Session &session);

private:
  std::vector<std::string> said;
};

} // namespace moec
