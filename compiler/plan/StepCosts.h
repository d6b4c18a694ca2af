// The compute time of a decode step on a device, without reads: from the step's operations and the
// device's rates. The only place that adds up the time of a step.
#pragma once

#include "compiler/plan/ModelFacts.h"
#include "compiler/plan/PlanProblem.h"

namespace moec {

/// Costs of the facts' decode step, computed with OperationTimes.
StepCosts stepCostsOf(const ModelFacts &facts, const DeviceProfile &device, const StepUse &use);

} // namespace moec
