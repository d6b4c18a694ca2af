#include "runtime/format/Artifact.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>

namespace moert {

std::vector<ExpertFormat> formatsOf(const Expert &expert) {
  std::vector<ExpertFormat> formats;
  for (const Slice &slice : expert.slices)
    formats.push_back(slice.format);
  return formats;
}

std::vector<WeightFormat> formatsOf(std::span<const Slice> slices, ExpertPart part) {
  std::vector<WeightFormat> formats;
  for (const Slice &slice : slices)
    formats.push_back(formatOf(slice.format, part));
  return formats;
}

uint16_t lowCopySlicesOf(const Expert &expert) {
  for (size_t i = 1; i < expert.slices.size(); ++i)
    if (!expert.slices[i].format.refines())
      return static_cast<uint16_t>(i);
  return 0;
}

std::span<const Slice> fullSlicesOf(const Expert &expert) {
  return std::span(expert.slices).subspan(lowCopySlicesOf(expert));
}

uint64_t fullBytesOf(const Expert &expert) {
  uint64_t bytes = 0;
  for (const Slice &slice : fullSlicesOf(expert))
    bytes += slice.bytes;
  return bytes;
}

uint64_t endAlignmentOf(const Expert &expert, size_t slice, uint32_t pageBytes) {
  const bool endsLowCopy = slice + 1 == lowCopySlicesOf(expert);
  return endsLowCopy ? std::max<uint64_t>(pageBytes, kSliceAlignment) : kSliceAlignment;
}

uint64_t memoryBytesOf(const Measured &measured) {
  uint64_t bytes = sizeof(measured);
  for (const std::vector<MeasuredText> *texts :
       {&measured.calibrationTexts, &measured.acceptanceTexts})
    for (const MeasuredText &text : *texts)
      bytes += sizeof(text) + text.name.capacity() + text.windows.capacity() * sizeof(uint32_t) +
               (text.referenceNats.capacity() + text.referencePoints.capacity()) * sizeof(double);
  for (const auto &[option, value] : measured.itemOptions)
    bytes += sizeof(std::pair<std::string, std::string>) + option.capacity() + value.capacity();
  for (const MeasuredCandidate &candidate : measured.candidates)
    bytes += sizeof(candidate) + candidate.solver.capacity();
  return bytes;
}

static uint64_t payloadBytesOf(std::span<const Slice> slices) {
  uint64_t bytes = 0;
  for (const Slice &slice : slices)
    bytes += slice.payloadBytes;
  return bytes;
}

const PatchesInstruction *imagesOf(const Artifact &artifact) {
  const Program *program = findProgram(artifact.programs, programs::kClassify);
  const bool isEmpty = !program || program->instructions.empty();
  return isEmpty ? nullptr : std::get_if<PatchesInstruction>(&program->instructions.front());
}

uint64_t expertPayloadBytes(const Artifact &artifact) {
  uint64_t bytes = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts)
      bytes += payloadBytesOf(fullSlicesOf(expert));
  return bytes;
}

uint64_t lowCopyPayloadBytes(const Artifact &artifact) {
  uint64_t bytes = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts)
      bytes += payloadBytesOf(std::span(expert.slices).first(lowCopySlicesOf(expert)));
  return bytes;
}

uint64_t fullBytesOf(const Artifact &artifact) {
  uint64_t bytes = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts)
      bytes += fullBytesOf(expert);
  return bytes;
}

bool hasLowCopies(const Artifact &artifact) {
  return std::any_of(artifact.moeLayers.begin(), artifact.moeLayers.end(),
                     [](const MoeLayer &layer) { return lowCopyGroupOf(layer) != 0; });
}

Result<SliceLayout> sliceLayoutOf(const MoeLayer &layer, const ExpertFormat &format) {
  SliceLayout layout;
  for (const ExpertMatrix &matrix : layer.matrices) {
    MOERT_ASSIGN_OR_RETURN(MatrixLayout stored,
                           layoutOf(matrix.shape, formatOf(format, matrix.part)));
    std::optional<uint64_t> start = checkedRoundUp(layout.payloadBytes, kRegionAlignment);
    std::optional<uint64_t> end = start ? checkedAdd(*start, stored.bytes) : std::nullopt;
    if (!end)
      return invalidInput("an expert's matrices do not fit in 2^64 bytes");
    layout.matrixOffsets.push_back(*start);
    layout.payloadBytes = *end;
  }
  return layout;
}

std::vector<uint64_t> recordBytesOf(const MoeLayer &layer) {
  std::vector<uint64_t> bytes;
  for (const Expert &expert : layer.experts)
    bytes.push_back(fullBytesOf(expert));
  return bytes;
}

uint32_t lowCopyGroupOf(const MoeLayer &layer) {
  for (const Expert &expert : layer.experts)
    if (lowCopySlicesOf(expert) > 0)
      return expert.slices.front().format.activationGroup();
  return 0;
}

std::vector<uint32_t> layerExpertsOf(const Artifact &artifact) {
  std::vector<uint32_t> experts;
  for (const MoeLayer &layer : artifact.moeLayers)
    experts.push_back(static_cast<uint32_t>(layer.experts.size()));
  return experts;
}

} // namespace moert
