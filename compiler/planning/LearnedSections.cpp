#include "compiler/planning/LearnedSections.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/engine/Footprint.h"
#include "runtime/format/FilePrefix.h"

#include <algorithm>

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

uint64_t placeLearnedSections(const LearnedSections &learned, Artifact &artifact) {
  const uint64_t weightsEnd = roundUp(
      std::max({artifact.residentOffset + artifact.residentBytes,
                artifact.recordsOffset + artifact.recordsBytes,
                artifact.tokenizerOffset + artifact.tokenizerBytes, uint64_t(kPrefixBytes)}),
      kSectionAlignment);
  uint64_t end = weightsEnd;
  const auto place = [&end](const std::vector<std::byte> &section, uint64_t &offset,
                            uint64_t &bytes, uint64_t &checksum) {
    bytes = section.size();
    offset = bytes > 0 ? end : 0;
    checksum = bytes > 0 ? checksum64(section) : 0;
    end += roundUp(bytes, kSectionAlignment);
  };
  place(learned.paths, artifact.pathsOffset, artifact.pathsBytes, artifact.pathsChecksum);
  place(learned.trace, artifact.traceOffset, artifact.traceBytes, artifact.traceChecksum);
  return weightsEnd;
}

} // namespace moec
