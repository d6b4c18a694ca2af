// The rules about layers with experts: their matrices and slices, and the records of those.
#include "runtime/base/CheckedMath.h"
#include "runtime/format/ProgramCheck.h"
#include "runtime/format/Validate.h"
#include "runtime/format/ValidateRules.h"

#include <optional>

namespace moert {

// All experts of a layer must agree on this, because they share one list of buffers: float weights
// need float inputs, quantized ones inputs quantized in their activation group, transformed or not.
// checkSliceFormats() has compared an expert's matrices with one another.
static Status checkFitsLayer(const MoeLayer &layer, const WeightFormat &format) {
  const WeightFormat &first = fullSlicesOf(layer.experts.front()).front().format.gateUp;
  if (isQuantized(format.kind) != isQuantized(first.kind) ||
      format.activationGroup != first.activationGroup)
    return invalidInput(nameOf(format.kind), " with activation group ", format.activationGroup,
                        ", the layer's first expert is ", nameOf(first.kind),
                        " with activation group ", first.activationGroup);
  if (format.hasHadamard != first.hasHadamard)
    return invalidInput(format.hasHadamard ? "has" : "lacks",
                        " the Hadamard transform, unlike the layer's first expert");
  return {};
}

// Low copies may be quantized beside floats. Their inputs are then quantized in one group.
static Status checkLowCopy(const MoeLayer &layer, const Expert &expert, uint32_t lowCopyGroup,
                           uint32_t pageBytes) {
  const std::span<const Slice> high = fullSlicesOf(expert);
  if (high.size() == expert.slices.size())
    return {};
  const WeightFormat &low = expert.slices.front().format.gateUp;
  if (high.front().format.isQuantized())
    MOERT_RETURN_IF_ERROR(checkFitsLayer(layer, low).withContext("slice 0"));
  else if (low.hasHadamard)
    return invalidInput("a low copy with the Hadamard transform beside floats, expected none");
  if (low.activationGroup != lowCopyGroup)
    return invalidInput("a low copy with activation group ", low.activationGroup,
                        ", the layer's first one has ", lowCopyGroup);
  const uint64_t lowPages = high.front().offset / pageBytes,
                 highPages = divideUp(fullBytesOf(expert), pageBytes);
  if (lowPages > highPages)
    return invalidInput("a low copy of ", lowPages, " pages, expected at most the ", highPages,
                        " of the other copy");
  return {};
}

static Status checkSlices(const MoeLayer &layer, const Expert &expert, uint32_t pageBytes) {
  const size_t lowSlices = lowCopySlicesOf(expert);
  uint64_t end = 0;
  for (size_t i = 0; i < expert.slices.size(); ++i) {
    const Slice &slice = expert.slices[i];
    auto refuse = [&](const char *what, uint64_t found, uint64_t expected) {
      return invalidInput("slice ", i, ": ", what, " is ", found, ", expected ", expected);
    };
    if (i >= lowSlices)
      MOERT_RETURN_IF_ERROR(
          checkFitsLayer(layer, slice.format.gateUp).withContext(strCat("slice ", i)));
    auto layout = sliceLayoutOf(layer, slice.format);
    if (!layout.isOk())
      return layout.status().withContext(strCat("slice ", i));
    std::optional<uint64_t> next = checkedAdd(end, layout->payloadBytes);
    next = next ? checkedRoundUp(*next, endAlignmentOf(expert, i, pageBytes)) : std::nullopt;
    if (!next)
      return invalidInput("slice ", i, ": ", layout->payloadBytes, " bytes of payload");
    if (slice.payloadBytes != layout->payloadBytes)
      return refuse("the payload", slice.payloadBytes, layout->payloadBytes);
    if (slice.bytes != *next - end)
      return refuse("the size", slice.bytes, *next - end);
    if (slice.offset != end)
      return refuse("the offset", slice.offset, end);
    end = *next;
  }
  if (expert.bytes != end)
    return invalidInput(expert.bytes, " bytes, its slices have ", end);
  return {};
}

static Status checkFormats(const Expert &expert) {
  MOERT_RETURN_IF_ERROR(checkRange("number of slices", expert.slices.size(), 1, kMaxExpertSlices));
  return checkSliceFormats(formatsOf(expert));
}

// y = down(activation(gate x, up x)): the only form of an expert that instructions can compute.
static Status checkMatrices(const Artifact &artifact, const MoeLayer &layer) {
  const size_t first = hasGate(layer.activation.kind) ? 0 : 1; // The part.
  if (layer.matrices.size() != kExpertParts - first)
    return invalidInput(layer.matrices.size(), " matrices, expected ",
                        first == 0 ? "gate, up and down" : "up and down");
  const uint32_t width = layer.matrices.front().shape.rows;
  // Rows of images become wider from stage to stage.
  const uint32_t hidden =
      imagesOf(artifact) ? layer.matrices.back().shape.rows : artifact.model.hiddenSize;
  for (size_t i = 0; i < layer.matrices.size(); ++i) {
    const ExpertMatrix &matrix = layer.matrices[i];
    const size_t part = first + i;
    MatrixShape expected = ExpertPart(part) == ExpertPart::kDown ? MatrixShape{hidden, width}
                                                                 : MatrixShape{width, hidden};
    if (matrix.part != ExpertPart(part))
      return invalidInput("matrix ", i, " is part ", uint32_t(matrix.part), ", expected part ",
                          part);
    if (!(matrix.shape == expected))
      return invalidInput("matrix ", i, " is ", matrix.shape.rows, " x ", matrix.shape.cols,
                          ", expected ", expected.rows, " x ", expected.cols);
  }
  return {};
}

static Status checkExpert(const MoeLayer &layer, const Expert &expert, uint32_t lowCopyGroup,
                          uint32_t pageBytes) {
  MOERT_RETURN_IF_ERROR(checkFormats(expert));
  MOERT_RETURN_IF_ERROR(checkSlices(layer, expert, pageBytes));
  return checkLowCopy(layer, expert, lowCopyGroup, pageBytes);
}

static Status checkMoeLayer(const Artifact &artifact, uint32_t index,
                            std::vector<FileRange> &records) {
  const MoeLayer &layer = artifact.moeLayers[index];
  MOERT_RETURN_IF_ERROR(checkRange("its number", layer.layer, 0, artifact.model.layers - 1));
  if (index > 0 && layer.layer <= artifact.moeLayers[index - 1].layer)
    return invalidInput("its number ", layer.layer, " follows ",
                        artifact.moeLayers[index - 1].layer, ", expected ascending layers");
  MOERT_RETURN_IF_ERROR(checkActivation(layer.activation));
  MOERT_RETURN_IF_ERROR(checkMatrices(artifact, layer));
  MOERT_RETURN_IF_ERROR(checkRange("number of experts", layer.experts.size(), 1, 65536));
  MOERT_RETURN_IF_ERROR(checkRange("top-k", layer.topK, 1, layer.experts.size()));
  const uint32_t lowCopyGroup = lowCopyGroupOf(layer);
  for (uint32_t e = 0; e < layer.experts.size(); ++e) {
    const Expert &expert = layer.experts[e];
    // checkFitsLayer() reads the first slice of the first expert's full copy.
    if (expert.slices.empty())
      return invalidInput("expert ", e, ": no slices, expected at least 1");
    MOERT_RETURN_IF_ERROR(checkExpert(layer, expert, lowCopyGroup, artifact.pageBytes)
                              .withContext(strCat("expert ", e)));
    records.push_back({expert.fileOffset, expert.bytes, index, e});
  }
  return {};
}

// Records fill their section without gaps, in any order: every byte of the file is covered by a
// checksum or must be zero.
static Status checkRecordsTile(const Artifact &artifact, std::vector<FileRange> records) {
  sortByOffset(records);
  uint64_t end = artifact.recordsOffset, left = artifact.recordsBytes;
  for (const FileRange &record : records) {
    auto name = [&] {
      return strCat("the record of layer ", artifact.moeLayers[record.layer].layer, ", expert ",
                    record.index);
    };
    if (record.offset != end)
      return invalidInput(name(), " is at offset ", record.offset, ", expected ", end,
                          record.offset < end ? ": it overlaps another" : ": nothing is before it");
    if (record.bytes > left)
      return invalidInput(name(), " has ", record.bytes, " bytes, the records section has ", left,
                          " left");
    end += record.bytes;
    left -= record.bytes;
  }
  if (left != 0)
    return invalidInput("the records have ", artifact.recordsBytes - left,
                        " bytes, their section has ", artifact.recordsBytes);
  return {};
}

Status validateMoeLayers(const Artifact &artifact) {
  std::vector<FileRange> records;
  for (uint32_t i = 0; i < artifact.moeLayers.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkMoeLayer(artifact, i, records).withContext(strCat("MoE layer ", i)));
  return checkRecordsTile(artifact, std::move(records));
}

} // namespace moert
