// The planner's facts from the description of an artifact (compiler/plan/ModelFacts.h). Planned IR
// takes the same way: it is described as the artifact that it would become.
#pragma once

#include "compiler/plan/ModelFacts.h"
#include "runtime/format/Artifact.h"

namespace moec {

/// The artifact is laid out, as its records' sizes count; its plans do not.
ModelFacts factsOf(const moert::Artifact &artifact, const moert::ModelFootprint &footprint);

/// The stored widths of an expert's matrices at full precision.
ExpertProducts productWeightsOf(const moert::Expert &expert);

} // namespace moec
