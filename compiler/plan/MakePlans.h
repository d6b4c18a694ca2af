// The planner: from facts of a model, what calibration learned, a device and budgets to plans with
// forecasts and reasons. The passes, moec replan and moec plan call it; nothing else makes a plan.
#pragma once

#include "compiler/plan/BudgetPlan.h"
#include "compiler/plan/PlanInputs.h"
#include "runtime/policy/Plan.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace moec {

/// What plans are decided from besides the model and the budgets. Borrowed.
struct PlanBasis {
  const KnownRouting *routing = nullptr; // nullptr: the routing is unknown.
  const DeviceProfile *device = nullptr; // nullptr: the times are unknown.
};

/// Why the model's experts have their widths, which is decided before all plans.
struct WidthsReason {
  moert::PlanReason reason;
  bool isTimed = false; // The plan's forecast belongs to it, and its origin too.
};

/// The reason that a plan has, which all plans of its model share.
std::optional<WidthsReason> widthsReasonOf(const moert::Plan &plan);

/// Reports a long step and interrupts it.
struct PlanWatch {
  /// Thousandths of plans, done and in total; from 0 to the total. Only for plans from a trace.
  std::function<void(uint64_t done, uint64_t total)> progress = {};
  const std::atomic<bool> *stop = nullptr; // Once true, planning ends with kInterrupted.
};
constexpr uint64_t kProgressPerPlan = 1000;

/// A plan for each budget and preset of planBudgets(). With a routing and a device, preset `auto`
/// is searched for (PlanSearch.h), other presets are computed (Presets.h), and each plan has a
/// forecast. Without one of them, plans follow their presets' rules (PresetPrefetches.h).
moert::Result<std::vector<moert::Plan>> makePlans(const ModelFacts &facts,
                                                  std::span<const BudgetPlan> budgets,
                                                  const PlannedUse &use, const PlanBasis &basis,
                                                  const std::optional<WidthsReason> &widths = {},
                                                  const PlanWatch &watch = {});

/// The forecast that makePlans() makes for a plan of these facts. Refuses a miss rule where the
/// trace has no scores.
moert::Result<moert::Forecast> forecastPlan(const PlanInputs &inputs, const KnownRouting &routing,
                                            const DeviceProfile &device,
                                            const PlanSettings &settings);

/// Refuses presets that prefetch where the trace or the device is missing. `auto` is accepted: its
/// plans then do not prefetch.
moert::Status checkPrefetching(std::span<const Preset> presets, bool hasTrace, bool hasDevice);

/// Pages of the plan's pool: quotas and staging pages.
uint64_t poolPagesOf(const moert::Plan &plan);

/// A plan's decisions in the form that the replay takes.
PlanSettings settingsOf(const moert::Plan &plan);

/// Makes them the plan's decisions; `expertNorms` are taken where its eviction is by importance.
void takeSettings(PlanSettings settings, const std::vector<std::vector<uint32_t>> &expertNorms,
                  moert::Plan &plan);

} // namespace moec
