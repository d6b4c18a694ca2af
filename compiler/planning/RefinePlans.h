// Plans as a trace and a device say they should be: the settings of each plan's preset worked out
// for them, or searched for, with what they are expected to do. Compiling and replanning end here.
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

/// What plans are made from beside the artifact itself.
struct PlanBasis {
  const PlanTrace *trace = nullptr; // Absent: nothing is known of the routing.
  std::span<const std::byte> paths; // The paths section; may be empty.
  const DeviceProfile *device = nullptr;
};

/// A reason that all plans of an artifact have: no plan decides the widths.
inline constexpr std::string_view kWidthsReason = "widths";

/// Replaces the decisions of every plan of a laid out artifact; name, preset, budget and the number
/// of its pages stay. Without a trace or a device nothing happens, unless a plan's preset guesses:
/// that is refused, with what is missing.
moert::Status refinePlans(moert::Artifact &artifact, const PlanBasis &basis,
                          const Session &session);

/// Refuses plans whose preset guesses experts where a trace, a device or a place in the program is
/// missing. Preset auto is not refused: its plans do not guess then.
moert::Status checkGuessing(const moert::Artifact &artifact, bool hasTrace, bool hasDevice);

/// What is said behind a new artifact's name: ":" and a line for each plan that has a budget, or
/// nothing.
std::string plannedText(std::span<const moert::Plan> plans);

/// Pages of the plan's pool: of quotas and transit together.
uint64_t poolPagesOf(const moert::Plan &plan);

/// A plan's decisions as the replay takes them.
PlanSettings settingsOf(const moert::Plan &plan);

} // namespace moec
