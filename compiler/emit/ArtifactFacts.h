// The planner's facts from the description of an artifact (compiler/plan/ModelFacts.h). Planned IR
// takes the same way: it is described as the artifact that it would become.
#pragma once

#include "compiler/plan/ModelFacts.h"
#include "runtime/format/Artifact.h"

namespace moec {

/// The artifact is laid out, as its records' sizes count; its plans do not.
ModelFacts factsOf(const moert::Artifact &artifact, const moert::ModelFootprint &footprint);

/// The footprint that plans are made with, from what is known of an artifact before it exists: a
/// compile and a later replan for the same budget give the same plan. What is not known is
/// estimated, and errs on the large side: the runtime must accept a plan that the compiler
/// accepted. The artifact is laid out; its plans, measurements, chat templates and tokenizer do not
/// count.
moert::ModelFootprint plannedFootprintOf(const moert::Artifact &artifact);

/// The stored widths of an expert's matrices at full precision.
ExpertProducts productWeightsOf(const moert::Expert &expert);

} // namespace moec
