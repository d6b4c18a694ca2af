// A way to settings rather than settings: it fits records and pools of any size, so that one plan
// can be held against the same plan of other widths or another budget.
#pragma once

#include "compiler/plan/PlanRecipe.h"
#include "compiler/plan/PresetRules.h"

#include <optional>

namespace moec {

struct PlanRule {
  Preset preset = Preset::kAuto;    // Where there is no recipe.
  std::optional<PlanRecipe> recipe; // What a search has found.
};

/// The problem is one that check() accepts; verify() may refuse settings by recipe where the pool
/// is too small for it.
PlanSettings settingsBy(const PlanRule &rule, const PlanProblem &problem);

} // namespace moec
