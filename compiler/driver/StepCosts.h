// What a step of an artifact's programs costs on a device beside reading: times of computing, from
// the program's instructions and the device's rates.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "compiler/plan/PlanProblem.h"
#include "runtime/format/Artifact.h"

#include <cstdint>

namespace moec {

struct StepUse {
  uint32_t threads = 1;
  uint32_t contextTokens = 0; // Positions that an attention looks back at, in the mean.
};

/// Times of the decode program. A play of several tokens costs what the device's rates say of
/// matrices with several rows; everything but matrix products and attention is left out: at real
/// sizes it is some percent.
StepCosts stepCostsOf(const moert::Artifact &artifact, const DeviceProfile &device,
                      const StepUse &use);

/// The name of an expert's stored width in a device profile (kProductWeights).
std::string_view productWeightsOf(const moert::Expert &expert);

} // namespace moec
