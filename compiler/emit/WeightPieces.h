// The stored matrices of a plan in the order in which they lie in the file, cut into pieces of
// whole panels that are small enough to be worked on side by side.
#pragma once

#include "compiler/emit/EmitPlan.h"
#include "compiler/import/Checkpoint.h"
#include "compiler/quantize/PackWeights.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace moec {

/// A stored matrix: where it comes from and where it goes.
struct StoredMatrix {
  const WeightSource *source = nullptr; // In the plan.
  std::vector<moert::WeightFormat> slices;
  moert::MatrixLayout layout; // In the first slice.
  uint64_t fileOffset = 0;    // Of the first slice's part.
  /// In each slice behind the first, from the slice's first byte.
  std::vector<uint64_t> refinementOffsets = {};
};

/// Bytes of a finished record, within one slice.
struct RecordPiece {
  size_t layer = 0, expert = 0, slice = 0;
  uint64_t offset = 0; // In the record.
  uint64_t bytes = 0;
  uint64_t payloadBytes = 0; // Of them, without the padding behind the slice's payload.
  bool startsSlice = false, endsSlice = false;
};

/// Rows of a matrix that are read and packed at once, or a part of a finished record.
struct WeightPiece {
  uint32_t matrix = 0; // Index into WeightPieces::matrices.
  uint32_t firstRow = 0, rowCount = 0;
  std::optional<RecordPiece> copied; // Then the others mean nothing.
};

/// The last piece of a part ends at lastPiece - 1. Parts are the resident section, if there is one,
/// and then the records; nothing is resumed inside of one.
struct FilePart {
  size_t firstPiece = 0, lastPiece = 0;
};

struct WeightPieces {
  std::vector<StoredMatrix> matrices;
  std::vector<WeightPiece> pieces;
  std::vector<FilePart> parts;
};

/// The plan has been laid out and outlives the result. Refuses sources that do not fit their
/// matrix.
moert::Result<WeightPieces> cutIntoPieces(const EmitPlan &plan);

/// Reads and packs, one PackedWeights per slice; messages name the tensor. Of a finished record,
/// its bytes are the codes of the only one. Any thread.
moert::Result<std::vector<PackedWeights>> makePiece(const EmitPlan &plan,
                                                    const WeightPieces &weights,
                                                    const WeightPiece &piece,
                                                    const Checkpoint &checkpoint);

} // namespace moec
