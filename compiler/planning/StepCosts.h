// What a step of an artifact's programs costs on a device beside reading: times of computing, from
// the program's instructions and the device's rates.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "runtime/format/Artifact.h"

namespace moec {

/// Times of the decode program, by OperationTimes.
StepCosts stepCostsOf(const moert::Artifact &artifact, const DeviceProfile &device,
                      const StepUse &use);

/// The name of an expert's stored width in a device profile (kProductWeights).
std::string_view productWeightsOf(const moert::Expert &expert);

} // namespace moec
