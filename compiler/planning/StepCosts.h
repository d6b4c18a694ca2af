// The compute time of a step of an artifact's programs on a device, without reads: from the
// program's instructions and the device's rates.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "runtime/format/Artifact.h"

namespace moec {

/// Costs of the decode program, computed with OperationTimes.
StepCosts stepCostsOf(const moert::Artifact &artifact, const DeviceProfile &device,
                      const StepUse &use);

/// An expert's stored width, as named in device profiles (kProductWeights).
std::string_view productWeightsOf(const moert::Expert &expert);

} // namespace moec
