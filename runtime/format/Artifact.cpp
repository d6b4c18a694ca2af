#include "runtime/format/Artifact.h"

#include "runtime/base/CheckedMath.h"

namespace moert {

std::vector<WeightFormat> formatsOf(const Expert &expert) {
  std::vector<WeightFormat> formats;
  for (const Slice &slice : expert.slices)
    formats.push_back(slice.format);
  return formats;
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

uint64_t expertPayloadBytes(const Artifact &artifact) {
  uint64_t bytes = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts)
      for (const Slice &slice : expert.slices)
        bytes += slice.payloadBytes;
  return bytes;
}

Result<SliceLayout> sliceLayoutOf(const MoeLayer &layer, const WeightFormat &format) {
  SliceLayout layout;
  for (const ExpertMatrix &matrix : layer.matrices) {
    MOERT_ASSIGN_OR_RETURN(MatrixLayout stored, layoutOf(matrix.shape, format));
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
    bytes.push_back(expert.bytes);
  return bytes;
}

std::vector<uint32_t> layerExpertsOf(const Artifact &artifact) {
  std::vector<uint32_t> experts;
  for (const MoeLayer &layer : artifact.moeLayers)
    experts.push_back(static_cast<uint32_t>(layer.experts.size()));
  return experts;
}

} // namespace moert
