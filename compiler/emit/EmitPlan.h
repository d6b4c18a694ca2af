// The boundary between the planned IR and the bytes of the artifact: the contents of the file
// (moert::Artifact) and the source of each weight. No MLIR on this side of it.
#pragma once

#include "compiler/emit/RecordSource.h"
#include "compiler/import/ModelDescription.h"
#include "compiler/quantize/QuantizeExpert.h"
#include "runtime/format/Artifact.h"

#include <cstddef>
#include <string>
#include <vector>

namespace moec {

/// How records are made, besides what their formats say.
struct RecordOrigin {
  QuantizeMethod method = QuantizeMethod::kNearest;
  bool isNested = false;                 // As slicesOf() has it (compiler/quantize/PackGrid.h).
  std::string profilePath;               // Calibration profile; empty: none.
  uint64_t traceExpertBytes = 0;         // As learn() has it (compiler/profile/Learned.h).
  std::vector<uint64_t> searchRuns = {}; // What the trace keeps beside calibration's own runs.
};

struct EmitPlan {
  /// Complete except for values that only writing determines: offsets in the file and slice
  /// checksums. Slices have their format; their sizes follow from it.
  moert::Artifact artifact;

  /// Parallel to artifact.residents. Vectors (1 x n) are stored as f32 for any type in the
  /// checkpoint.
  std::vector<WeightSource> residentSources;

  /// [MoE layer][expert][matrix], parallel to artifact.moeLayers and their matrices.
  std::vector<std::vector<std::vector<WeightSource>>> expertSources;

  /// Per MoE layer: the router's weights multiply the experts' input, not their output.
  std::vector<bool> scalesInputs;

  RecordOrigin origin;

  /// Finished records; nullptr: they are quantized from expertSources by rounding to nearest.
  const RecordSource *records = nullptr;

  /// Error feedback of resident matrices; nullptr: all are rounded to nearest.
  const FeedbackSource *feedback = nullptr;

  /// The sections of the trace (compiler/profile/TraceSection.h) and of the activation-path tables
  /// (runtime/experts/PathTable.h). Empty: absent.
  std::vector<std::byte> trace, paths;
};

} // namespace moec
