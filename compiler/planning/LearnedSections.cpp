#include "compiler/planning/LearnedSections.h"

#include "runtime/engine/Footprint.h"

using namespace moert;

namespace moec {

Result<LearnedSections> readLearnedSections(const ByteSource &source, const Artifact &artifact) {
  LearnedSections learned;
  MOERT_ASSIGN_OR_RETURN(learned.paths, readPaths(source, artifact));
  MOERT_ASSIGN_OR_RETURN(learned.trace, readTrace(source, artifact));
  return learned;
}

Result<PlanTrace> readTraceOf(const Artifact &artifact, std::span<const std::byte> section) {
  MOERT_ASSIGN_OR_RETURN(PlanTrace trace, decodeTrace(section, layerExpertsOf(artifact)));
  const CacheShape shape = cacheShapeOf(artifact);
  for (size_t i = 0; i < trace.layers.size(); ++i)
    if (trace.layers[i].topK != shape.layers[i].topK)
      return invalidInput("the trace has ", trace.layers[i].topK,
                          " experts per token in MoE layer ", i, ", expected ",
                          shape.layers[i].topK, ", as many as its router chooses");
  return trace;
}

} // namespace moec
