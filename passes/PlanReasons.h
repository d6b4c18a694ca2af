// The reasons for the decisions of a plan that was made without a trace, for reports. The passes
// that decide write them; a pass that runs again replaces its own.
#pragma once

#include "compiler/plan/PresetRules.h"
#include "runtime/format/Artifact.h"

#include <string_view>

namespace mlir::moe {

/// Eviction, sharing and quotas of the preset.
void addCacheReasons(moec::Preset preset, moert::Plan &plan);

/// The predictor of the preset, or why it is not used (whyNot empty: it is).
void addPredictorReason(moec::Preset preset, std::string_view whyNot, moert::Plan &plan);

/// The prefix of the names of schedule-prefetch's decisions.
constexpr std::string_view kPrefetchReasons = "prefetch of MoE ";

/// Removes the reasons of decisions whose names have this prefix.
void removeReasons(std::string_view beginning, moert::Plan &plan);

} // namespace mlir::moe
