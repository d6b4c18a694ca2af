// The planner's facts from the description of an artifact (compiler/plan/ModelFacts.h). Planned IR
// takes the same way: it is described as the artifact that it would become.
#pragma once

#include "compiler/plan/ModelFacts.h"
#include "runtime/format/Artifact.h"

namespace moec {

/// The artifact is laid out, as its records' sizes count; its plans do not.
ModelFacts factsOf(const moert::Artifact &artifact, const moert::ModelFootprint &footprint);

/// An expert's stored width at full precision, as named in device profiles (kProductWeights).
std::string_view productWeightsOf(const moert::Expert &expert);

} // namespace moec
