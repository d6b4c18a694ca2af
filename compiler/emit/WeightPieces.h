// The stored matrices of a plan in file order, cut into pieces of whole panels that are small
// enough to be processed in parallel.
#pragma once

#include "compiler/emit/EmitPlan.h"
#include "compiler/import/Checkpoint.h"
#include "compiler/quantize/PackWeights.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace moec {

/// A stored matrix, of an expert in one of its copies: its source and its position in the file.
struct StoredMatrix {
  const WeightSource *source = nullptr;    // Owned by the plan.
  std::vector<moert::WeightFormat> slices; // All of its copy; int0 where it has nothing in one.
  moert::MatrixLayout layout;              // Layout in the first slice.
  uint64_t fileOffset = 0;                 // The part in the first slice.
  /// Offset in each slice after the first, from the slice's first byte.
  std::vector<uint64_t> refinementOffsets = {};
  size_t firstSlice = 0; // The copy's, in its record.
  bool startsCopy = false, endsCopy = false;
  const moert::ResidentWeight *resident = nullptr; // The plan's; not of an expert's matrix.
};

/// Bytes of a finished record, within one slice.
struct RecordPiece {
  size_t layer = 0, expert = 0, slice = 0;
  uint64_t fileOffset = 0; // Where the record begins.
  uint64_t offset = 0;     // From the record's first byte.
  uint64_t bytes = 0;
  uint64_t payloadBytes = 0; // Without the padding after the slice's payload.
  bool startsSlice = false, endsSlice = false;
};

/// Rows of a matrix that are read and packed together, or a part of a finished record.
struct WeightPiece {
  uint32_t matrix = 0; // Index into WeightPieces::matrices.
  uint32_t firstRow = 0, rowCount = 0;
  std::optional<RecordPiece> copied; // If set, the other fields are unused.
};

/// The last piece of a part is lastPiece - 1. Parts are the resident section, if there is one, and
/// then the records; an emission resumes only at the beginning of a part.
struct FilePart {
  size_t firstPiece = 0, lastPiece = 0;
};

struct WeightPieces {
  std::vector<StoredMatrix> matrices;
  std::vector<WeightPiece> pieces;
  std::vector<FilePart> parts;
};

/// The plan has been laid out and outlives the result. Refuses sources that do not match the shape
/// of their matrix.
moert::Result<WeightPieces> cutIntoPieces(const EmitPlan &plan);

/// Reads and packs, one PackedWeights per slice; messages name the tensor. For a finished record
/// its bytes are the codes of a single one; with nothing else the checkpoint is null. Any thread.
moert::Result<std::vector<PackedWeights>> makePiece(const EmitPlan &plan,
                                                    const WeightPieces &weights,
                                                    const WeightPiece &piece,
                                                    const Checkpoint *checkpoint);

} // namespace moec
