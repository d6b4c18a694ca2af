// Explains the decisions of presets, for reports. Reasons follow from the decisions and from what
// they were made from; they decide nothing.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/PresetPrefetches.h"

#include <string_view>
#include <vector>

namespace moec {

/// For settings of Presets.h, which a trace and a device decided.
std::vector<moert::PlanReason> reasonsOf(Preset preset, const PlanProblem &problem,
                                         const PlanSettings &settings);

/// For the rules of a preset and prefetches without a trace. `device`: its name, empty if none was
/// given.
std::vector<moert::PlanReason> reasonsOf(Preset preset, const PresetPrefetches &prefetches,
                                         std::string_view device);

/// Removes the reasons of a decision that is made again or no longer applies.
void eraseReasons(std::string_view decision, std::vector<moert::PlanReason> &reasons);

/// The decision name of the reason why prompts are computed exactly.
inline constexpr std::string_view kPromptsReason = "prompts";

/// The decision name of the reason for a pool of upper slices.
inline constexpr std::string_view kPoolsReason = "pools";

/// The decision name of a reason that all plans share: widths are not decided per plan.
inline constexpr std::string_view kWidthsReason = "widths";

} // namespace moec
