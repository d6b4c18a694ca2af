// The boundary between the planned IR and the bytes of the artifact: everything that the file will
// say (moert::Artifact) and where each weight comes from. No MLIR on this side of it.
#pragma once

#include "compiler/emit/RecordSource.h"
#include "compiler/import/ModelDescription.h"
#include "runtime/format/Artifact.h"

#include <cstddef>
#include <string>
#include <vector>

namespace moec {

struct EmitPlan {
  /// Complete but for what only writing decides: offsets in the file, slice checksums. Slices carry
  /// their format; their sizes follow from it.
  moert::Artifact artifact;

  /// Parallel to artifact.residents. Vectors (1 x n) are stored as f32 whatever the checkpoint has.
  std::vector<WeightSource> residentSources;

  /// [MoE layer][expert][matrix], parallel to artifact.moeLayers and their matrices.
  std::vector<std::vector<std::vector<WeightSource>>> expertSources;

  /// Finished records; nullptr: they are quantized from expertSources by rounding to nearest.
  const RecordSource *records = nullptr;

  /// The sections that plans are made and guess from: compiler/profile/TraceSection.h and
  /// runtime/predict/PathTable.h. Empty: absent.
  std::vector<std::byte> trace, paths;

  /// Directory of the checkpoint that the sources name tensors of.
  std::string checkpointDirectory;
};

} // namespace moec
