// Why a plan that was made without a trace decides what it does, in words for people. The passes
// that decide write them; a pass that runs again replaces its own.
#pragma once

#include "compiler/plan/PresetRules.h"
#include "runtime/format/Artifact.h"

#include <string_view>

namespace mlir::moe {

/// Eviction, sharing and quotas as the preset has them.
void addCacheReasons(moec::Preset preset, moert::Plan &plan);

/// The predictor, as the preset has it; why there is none in spite of it (empty: there is).
void addPredictorReason(moec::Preset preset, std::string_view whyNot, moert::Plan &plan);

/// How the names of schedule-prefetch's decisions begin.
constexpr std::string_view kPrefetchReasons = "prefetch of MoE ";

/// Removes reasons of decisions whose names begin so.
void removeReasons(std::string_view beginning, moert::Plan &plan);

} // namespace mlir::moe
