// The trace that calibration stored, as the planner takes it: layer passes, and what each predictor
// would have said.
#pragma once

#include "compiler/plan/PlanInputs.h"
#include "compiler/profile/TraceSection.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <span>

namespace moec {

/// Predictions are those of the facts' decode program; `paths`, the section of the activation-path
/// table, is empty if there is none. Refuses a trace that leaves no tokens for a forecast.
moert::Result<KnownRouting> routingOf(const PlanTrace &trace, std::span<const std::byte> paths,
                                      const ModelFacts &facts);

} // namespace moec
