// The pass that makes plans, for a caller that has read its inputs already.
#pragma once

#include "compiler/plan/MakePlans.h"
#include "compiler/profile/Learned.h"
#include "passes/Passes.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace mlir::moe {

/// Inputs in memory instead of the files of the options `calibration` and `device`, and what no
/// option can express. Borrowed until the pass has run.
struct PlanSources {
  const moec::PlanTrace *trace = nullptr;
  std::span<const std::byte> paths; // The activation-path tables; empty: there are none.
  const moec::DeviceProfile *device = nullptr;
  std::optional<moec::WidthsReason> widths;
  moec::PlanWatch watch;
  uint32_t hobbitDepth = 0; // As PlannedUse has it.
  /// Completes the facts by what is read or measured, once the budgets are known to hold the model;
  /// an error ends the pass.
  std::function<moert::Status(moec::ModelFacts &, std::span<const moec::BudgetPlan>)> complete = {};
};

std::unique_ptr<Pass> createMakePlansPass(MakePlansPassOptions options, PlanSources sources);

} // namespace mlir::moe
