#include "compiler/emit/WeightPieces.h"

#include "compiler/quantize/FittedMatrix.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>

using namespace moert;

namespace moec {

// Large enough that reading a piece is one large request, small enough that a piece for each thread
// and those that wait to be written stay within 200 MB on 16 threads.
constexpr uint64_t kPieceBytes = uint64_t(4) << 20;
// Reading a transposed matrix costs a request per column, independent of the number of rows.
constexpr uint64_t kTransposedPieceBytes = uint64_t(16) << 20;

static Status addMatrix(WeightPieces &weights, const WeightSource &source, const MatrixShape &shape,
                        std::vector<WeightFormat> slices, uint64_t fileOffset) {
  if (source.rows != shape.rows || source.cols != shape.cols)
    return invalidInput("tensor ", source.tensor, " has ", source.rows, " x ", source.cols,
                        " values, the plan needs ", shape.rows, " x ", shape.cols);
  MOERT_ASSIGN_OR_RETURN(MatrixLayout layout, layoutOf(shape, slices.front()));
  uint64_t wanted = source.transposed ? kTransposedPieceBytes : kPieceBytes;
  uint64_t rows = wanted / (uint64_t(shape.cols) * sizeof(float));
  rows = std::max<uint64_t>(rows / kPanelRows * kPanelRows, kPanelRows);
  auto index = uint32_t(weights.matrices.size());
  weights.matrices.push_back({&source, std::move(slices), layout, fileOffset});
  for (uint64_t first = 0; first < shape.rows; first += rows)
    weights.pieces.push_back(
        {index, uint32_t(first), uint32_t(std::min<uint64_t>(rows, shape.rows - first)), {}});
  return {};
}

static void addFinished(WeightPieces &weights, RecordPiece piece, const Slice &slice) {
  for (uint64_t done = 0; done < slice.bytes; done += kPieceBytes) {
    piece.offset = slice.offset + done;
    piece.bytes = std::min(kPieceBytes, slice.bytes - done);
    piece.payloadBytes =
        std::min(piece.bytes, slice.payloadBytes - std::min(done, slice.payloadBytes));
    piece.startsSlice = done == 0;
    piece.endsSlice = done + piece.bytes == slice.bytes;
    weights.pieces.push_back({0, 0, 0, piece});
  }
}

static Status addResidents(WeightPieces &weights, const EmitPlan &plan) {
  const Artifact &artifact = plan.artifact;
  if (plan.records && plan.records->hasResidents()) {
    Slice section;
    section.bytes = section.payloadBytes = artifact.residentBytes;
    RecordPiece piece;
    piece.layer = kResidentRecord;
    piece.fileOffset = artifact.residentOffset;
    addFinished(weights, piece, section);
    if (section.bytes > 0)
      weights.parts.push_back({0, weights.pieces.size()});
    return {};
  }
  if (plan.residentSources.size() != artifact.residents.size())
    return invalidInput("the plan has ", plan.residentSources.size(), " sources for ",
                        artifact.residents.size(), " resident weights");
  for (size_t i = 0; i < artifact.residents.size(); ++i) {
    const ResidentWeight &weight = artifact.residents[i];
    MOERT_RETURN_IF_ERROR(addMatrix(weights, plan.residentSources[i], weight.shape, {weight.format},
                                    artifact.residentOffset + weight.offset));
    weights.matrices.back().resident = &weight;
  }
  if (!artifact.residents.empty()) {
    weights.matrices.front().startsCopy = true;
    weights.parts.push_back({0, weights.pieces.size()});
  }
  return {};
}

/// Slices [first, end) of an expert. The other copy reads the sources again, so that no record has
/// to fit in memory.
static Status addCopy(WeightPieces &weights, const MoeLayer &layer, const Expert &expert,
                      size_t first, size_t end, const std::vector<WeightSource> &sources) {
  const auto slices = std::span(expert.slices).subspan(first, end - first);
  std::vector<SliceLayout> layouts;
  for (const Slice &slice : slices) {
    MOERT_ASSIGN_OR_RETURN(layouts.emplace_back(), sliceLayoutOf(layer, slice.format));
  }
  const uint64_t fileOffset = expert.fileOffset + expert.slices[first].offset;
  for (size_t m = 0; m < sources.size(); ++m) {
    const ExpertMatrix &stored = layer.matrices[m];
    MOERT_RETURN_IF_ERROR(addMatrix(weights, sources[m], stored.shape,
                                    formatsOf(slices, stored.part),
                                    fileOffset + layouts.front().matrixOffsets[m]));
    StoredMatrix &matrix = weights.matrices.back();
    for (size_t s = 1; s < layouts.size(); ++s)
      matrix.refinementOffsets.push_back(layouts[s].matrixOffsets[m]);
    matrix.firstSlice = first;
    matrix.startsCopy = m == 0;
    matrix.endsCopy = m + 1 == sources.size();
  }
  return {};
}

static Status addExpert(WeightPieces &weights, const MoeLayer &layer, const Expert &expert,
                        const std::vector<WeightSource> &sources) {
  if (sources.size() != layer.matrices.size())
    return invalidInput(sources.size(), " sources for ", layer.matrices.size(), " matrices");
  const size_t firstPiece = weights.pieces.size(), low = lowCopySlicesOf(expert);
  if (low > 0)
    MOERT_RETURN_IF_ERROR(addCopy(weights, layer, expert, 0, low, sources));
  MOERT_RETURN_IF_ERROR(addCopy(weights, layer, expert, low, expert.slices.size(), sources));
  weights.parts.push_back({firstPiece, weights.pieces.size()});
  return {};
}

static void addRecord(WeightPieces &weights, size_t layer, size_t expertIndex,
                      const Expert &expert) {
  const size_t firstPiece = weights.pieces.size();
  for (size_t s = 0; s < expert.slices.size(); ++s)
    addFinished(
        weights,
        {.layer = layer, .expert = expertIndex, .slice = s, .fileOffset = expert.fileOffset},
        expert.slices[s]);
  weights.parts.push_back({firstPiece, weights.pieces.size()});
}

Result<WeightPieces> cutIntoPieces(const EmitPlan &plan) {
  WeightPieces weights;
  MOERT_RETURN_IF_ERROR(addResidents(weights, plan));
  const std::vector<MoeLayer> &layers = plan.artifact.moeLayers;
  if (plan.expertSources.size() != layers.size())
    return invalidInput("the plan has sources for ", plan.expertSources.size(),
                        " MoE layers, expected ", layers.size());
  for (size_t l = 0; l < layers.size(); ++l) {
    if (plan.expertSources[l].size() != layers[l].experts.size())
      return invalidInput("the plan has sources for ", plan.expertSources[l].size(),
                          " experts of layer ", layers[l].layer, ", expected ",
                          layers[l].experts.size());
    for (size_t e = 0; e < layers[l].experts.size(); ++e) {
      if (plan.records) {
        addRecord(weights, l, e, layers[l].experts[e]);
        continue;
      }
      Status status = addExpert(weights, layers[l], layers[l].experts[e], plan.expertSources[l][e]);
      if (!status.isOk())
        return std::move(status).withContext(strCat("layer ", layers[l].layer, ", expert ", e));
    }
  }
  return weights;
}

static Result<std::vector<PackedWeights>> readRecordPiece(const EmitPlan &plan,
                                                          const RecordPiece &piece) {
  std::vector<PackedWeights> result(1);
  std::vector<std::byte> &bytes = result[0].codes;
  bytes.resize(piece.bytes);
  MOERT_RETURN_IF_ERROR(plan.records->read(piece.layer, piece.expert, piece.offset, bytes));
  return result;
}

static Result<std::vector<PackedWeights>> makeKeptPiece(const WeightSource &source, WeightKind kind,
                                                        const WeightPiece &piece,
                                                        const Checkpoint &checkpoint) {
  MOERT_ASSIGN_OR_RETURN(const StoredType type, checkpoint.storedType(source));
  if (weightKindOf(type) != kind)
    return invalidInput(checkpoint.directory(), ": tensor ", source.tensor, ": found ",
                        storedTypeName(type), ", expected ", nameOf(kind),
                        ", as the experts' format says");
  std::vector<std::byte> rows(piece.rowCount * storedBytes(type, source.cols));
  MOERT_RETURN_IF_ERROR(checkpoint.readStoredRows(source, piece.firstRow, piece.rowCount, rows));
  std::vector<PackedWeights> packed(1);
  MOERT_ASSIGN_OR_RETURN(packed[0], packKept({piece.rowCount, source.cols}, kind, rows));
  return packed;
}

static Result<std::vector<PackedWeights>> packRows(const EmitPlan &plan, const StoredMatrix &matrix,
                                                   const WeightPiece &piece,
                                                   std::span<const float> rows) {
  const MatrixShape shape = {matrix.source->rows, matrix.source->cols};
  const WeightFormat &format = matrix.slices.front();
  std::shared_ptr<const Feedback> feedback;
  if (plan.feedback && matrix.resident && isQuantized(format.kind)) {
    MOERT_ASSIGN_OR_RETURN(feedback,
                           plan.feedback->feedbackFor(matrix.resident->name, format.hasHadamard));
  }
  if (!feedback)
    return packWeights(shape, matrix.slices, piece.firstRow, piece.rowCount, rows);
  MOERT_ASSIGN_OR_RETURN(const GridMatrix quantized,
                         quantizeFitted({piece.rowCount, shape.cols}, gridOf(matrix.slices), rows,
                                        *feedback, bestIsa()));
  return packGrid(quantized, matrix.slices);
}

Result<std::vector<PackedWeights>> makePiece(const EmitPlan &plan, const WeightPieces &weights,
                                             const WeightPiece &piece,
                                             const Checkpoint *checkpoint) {
  if (piece.copied)
    return readRecordPiece(plan, *piece.copied);
  const StoredMatrix &matrix = weights.matrices[piece.matrix];
  const WeightSource &source = *matrix.source;
  if (const WeightKind kind = matrix.slices.front().kind; isKept(kind))
    return makeKeptPiece(source, kind, piece, *checkpoint);
  std::vector<float> rows(size_t(piece.rowCount) * source.cols);
  MOERT_RETURN_IF_ERROR(checkpoint->readRows(source, piece.firstRow, piece.rowCount, rows));
  auto packed = packRows(plan, matrix, piece, rows);
  if (!packed.isOk())
    return packed.status().withContext(strCat(checkpoint->directory(), ": tensor ", source.tensor));
  return packed;
}

} // namespace moec
