// The pass that makes plans, for a caller that has read its inputs already.
#pragma once

#include "compiler/plan/MakePlans.h"
#include "compiler/profile/Learned.h"
#include "passes/Passes.h"

#include <memory>
#include <optional>

namespace mlir::moe {

/// Inputs in memory instead of the files of the options `calibration` and `device`, and what no
/// option can express. Borrowed until the pass has run.
struct PlanSources {
  const moec::Learned *learned = nullptr;
  const moec::DeviceProfile *device = nullptr;
  std::optional<moec::WidthsReason> widths;
  moec::PlanWatch watch;
};

std::unique_ptr<Pass> createMakePlansPass(MakePlansPassOptions options, PlanSources sources);

} // namespace mlir::moe
