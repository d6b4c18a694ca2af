// Sets the decisions of plans from a trace and a device: by each plan's preset, or by a search,
// with a forecast. The last step of compiling and of replanning.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "compiler/plan/PlanProblem.h"
#include "compiler/profile/TraceSection.h"
#include "compiler/session/Session.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstddef>
#include <span>
#include <string>

namespace moec {

/// The inputs of planning besides the artifact.
struct PlanBasis {
  const PlanTrace *trace = nullptr; // nullptr: the routing is unknown.
  std::span<const std::byte> paths; // The activation-path table's section; may be empty.
  const DeviceProfile *device = nullptr;
};

/// The decision name of a reason that all plans share: widths are not decided per plan.
inline constexpr std::string_view kWidthsReason = "widths";

/// Replaces the decisions of every plan of a laid out artifact; name, preset, budget and number of
/// pages stay. Does nothing without a trace or a device, unless a plan's preset prefetches: then an
/// error names what is missing.
moert::Status refinePlans(moert::Artifact &artifact, const PlanBasis &basis,
                          const Session &session);

/// Refuses plans whose preset prefetches if the trace, the device or the program's predict
/// instruction is missing. Preset auto is accepted: its plans then do not prefetch.
moert::Status checkPrefetching(const moert::Artifact &artifact, bool hasTrace, bool hasDevice);

/// The text after a new artifact's name: ":" and a line per plan with a budget, or nothing.
std::string plannedText(std::span<const moert::Plan> plans);

/// Pages of the plan's pool: quotas and staging pages.
uint64_t poolPagesOf(const moert::Plan &plan);

/// A plan's decisions in the form that the replay takes.
PlanSettings settingsOf(const moert::Plan &plan);

} // namespace moec
