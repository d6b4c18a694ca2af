#include "compiler/profile/ProfileWriter.h"

#include "compiler/profile/HalfRows.h"

#include <cassert>
#include <cmath>

using namespace moert;

namespace moec {

// OutputFile's write buffers, and as much for the system's own tables.
static constexpr uint64_t kFileBytes = uint64_t(16) << 20;

uint64_t ProfileWriter::memoryBytes(const CalibrationInfo &info) {
  return kFileBytes + info.tokens.size() * (sizeof(int16_t) + sizeof(int32_t)) +
         info.hiddenSize * sizeof(uint16_t); // No layer is wider.
}

ProfileWriter::ProfileWriter(OutputFile partial, ProfileHeader header, ProfileLayout places,
                             size_t finishedLayers, size_t finishedInputs)
    : file(std::move(partial)), content(std::move(header)), layout(std::move(places)),
      layer(finishedLayers), input(finishedInputs) {
  exponents.reserve(content.info.tokens.size());
}

Result<ProfileWriter> ProfileWriter::create(const std::string &outputPath, CalibrationInfo info) {
  ProfileHeader header;
  header.checksums.resize(info.moeLayers.size());
  header.inputChecksums.resize(info.residentInputs.size());
  header.info = std::move(info);
  MOERT_RETURN_IF_ERROR(checkProfileHeader(header, 0));
  MOERT_ASSIGN_OR_RETURN(ProfileLayout layout, layoutOf(header.info));
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(outputPath, layout.headerOffset));
  // The first page describes the whole file and is written last.
  MOERT_RETURN_IF_ERROR(file.padTo(kProfilePageBytes));
  return ProfileWriter(std::move(file), std::move(header), std::move(layout), 0, 0);
}

Result<ProfileWriter> ProfileWriter::resume(const std::string &outputPath, ProfileHeader header,
                                            size_t finishedLayers, size_t finishedInputs) {
  MOERT_RETURN_IF_ERROR(checkProfileHeader(header, finishedLayers));
  MOERT_ASSIGN_OR_RETURN(ProfileLayout layout, layoutOf(header.info));
  const uint64_t end = layout.endOf(finishedLayers, finishedInputs);
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::resume(outputPath, end, layout.headerOffset));
  return ProfileWriter(std::move(file), std::move(header), std::move(layout), finishedLayers,
                       finishedInputs);
}

Status ProfileWriter::append(std::span<const std::byte> bytes) {
  checksum.update(bytes);
  return file.append(bytes);
}

// A section's checksum includes the zeros after it, so that every byte of the file is checked.
Status ProfileWriter::endSection(uint64_t offset, uint64_t &checksumOut) {
  static constexpr std::byte kZeros[kProfilePageBytes] = {};
  MOERT_RETURN_IF_ERROR(append(std::span(kZeros).first(offset - file.position())));
  checksumOut = checksum.digest();
  checksum = ChecksumStream();
  return {};
}

Status ProfileWriter::appendRows(std::span<const float> rows) {
  const CalibrationInfo &info = content.info;
  assert(layer < info.moeLayers.size() && rows.size() % info.widthOf(layer) == 0);
  halves.resize(info.widthOf(layer));
  for (; !rows.empty(); rows = rows.subspan(halves.size())) {
    std::optional<int16_t> exponent = encodeHalfRow(rows.first(halves.size()), halves);
    if (!exponent)
      return invalidInput("the experts of layer ", info.moeLayers[layer].layer,
                          " have an infinity or a NaN as input for token ", exponents.size());
    exponents.push_back(*exponent);
    MOERT_RETURN_IF_ERROR(append(std::as_bytes(std::span(halves))));
  }
  return {};
}

static void countChosen(const LayerTrace &trace, CalibrationInfo::MoeLayer &layer) {
  layer.counts.assign(layer.experts, 0);
  layer.weightSums.assign(layer.experts, 0);
  for (size_t i = 0; i < trace.experts.size(); ++i) {
    assert(trace.experts[i] < layer.experts);
    ++layer.counts[trace.experts[i]];
    layer.weightSums[trace.experts[i]] += static_cast<double>(trace.weights[i]);
  }
}

Status ProfileWriter::finishLayer(const LayerTrace &trace) {
  assert(exponents.size() == content.info.tokens.size());
  const ProfileLayerPlace &place = layout.layers[layer];
  ProfileHeader::Checksums &checksums = content.checksums[layer];
  MOERT_RETURN_IF_ERROR(append(std::as_bytes(std::span(exponents))));
  MOERT_RETURN_IF_ERROR(endSection(place.traceOffset, checksums.rows));
  exponents.clear();

  auto appendAll = [this](const auto &values) { return append(std::as_bytes(std::span(values))); };
  MOERT_RETURN_IF_ERROR(appendAll(trace.inputNorms));
  MOERT_RETURN_IF_ERROR(appendAll(trace.weights));
  MOERT_RETURN_IF_ERROR(appendAll(trace.candidates.probabilities));
  for (const ExpertCandidates &later : trace.predictions)
    MOERT_RETURN_IF_ERROR(appendAll(later.probabilities));
  MOERT_RETURN_IF_ERROR(appendAll(trace.experts));
  MOERT_RETURN_IF_ERROR(appendAll(trace.candidates.experts));
  for (const ExpertCandidates &later : trace.predictions)
    MOERT_RETURN_IF_ERROR(appendAll(later.experts));
  MOERT_RETURN_IF_ERROR(endSection(place.traceOffset + place.traceBytes, checksums.trace));
  countChosen(trace, content.info.moeLayers[layer]);
  ++layer;
  return {};
}

Status ProfileWriter::appendMoments(const Moments &moments) {
  assert(input < layout.inputs.size() && moments.cols == content.info.residentInputs[input].cols);
  std::vector<float> row;
  for (size_t block = 0; block < moments.blocks.size(); ++block) {
    const size_t cols = moments.blockCols(block);
    for (size_t i = 0; i < cols; ++i) {
      const double *values = &moments.blocks[block][i * cols];
      row.assign(values, values + i + 1);
      for (float value : row)
        if (!std::isfinite(value))
          return invalidInput("the inputs of ", content.info.residentInputs[input].weights.front(),
                              " are infinite, NaN or beyond the range of f32 when squared");
      MOERT_RETURN_IF_ERROR(append(std::as_bytes(std::span(row))));
    }
  }
  const ProfileInputPlace &place = layout.inputs[input];
  MOERT_RETURN_IF_ERROR(endSection(place.offset + place.bytes, content.inputChecksums[input]));
  ++input;
  return {};
}

Status ProfileWriter::commit() {
  MOERT_RETURN_IF_ERROR(checkProfileHeader(content, content.info.moeLayers.size()));
  std::vector<std::byte> bytes = encodeProfileHeader(content);
  MOERT_RETURN_IF_ERROR(file.append(bytes));
  ProfilePrefix prefix = {layout.headerOffset + bytes.size(), layout.headerOffset, bytes.size(),
                          checksum64(bytes)};
  MOERT_RETURN_IF_ERROR(file.writeAt(0, encodeProfilePrefix(prefix)));
  return file.commit();
}

} // namespace moec
