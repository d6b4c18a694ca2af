// Reads a profile: the first page and the header in open(), sections on demand.
#include "compiler/profile/CalibrationProfile.h"

#include "compiler/profile/HalfRows.h"
#include "compiler/profile/ProfileHeader.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/format/Reader.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace moert;

namespace moec {

// Read size, large enough for a disk's full speed.
constexpr uint64_t kReadBytes = uint64_t(1) << 20;

struct CalibrationProfile::Impl {
  std::optional<FileSource> file; // nullopt if the caller owns the source.
  const ByteSource *source = nullptr;
  ProfileHeader header;
  ProfileLayout layout;
};

CalibrationProfile::CalibrationProfile(std::unique_ptr<Impl> opened) : impl(std::move(opened)) {}
CalibrationProfile::~CalibrationProfile() = default;
const CalibrationInfo &CalibrationProfile::info() const {
  return impl->header.info;
}

static Status readHeader(const ByteSource &source, ProfileHeader &header, ProfileLayout &layout) {
  if (source.bytes() < kProfilePageBytes)
    return invalidInput("this is not a calibration profile: it has ", source.bytes(),
                        " bytes, expected at least ", kProfilePageBytes);
  std::vector<std::byte> page(kProfilePageBytes);
  MOERT_RETURN_IF_ERROR(source.read(0, page));
  MOERT_ASSIGN_OR_RETURN(ProfilePrefix prefix, decodeProfilePrefix(page, source.bytes()));
  std::vector<std::byte> bytes(prefix.headerBytes);
  MOERT_RETURN_IF_ERROR(source.read(prefix.headerOffset, bytes));
  if (uint64_t found = checksum64(bytes); found != prefix.headerChecksum)
    return invalidInput("the header is damaged: its checksum is ", formatChecksum(found),
                        ", the first page has ", formatChecksum(prefix.headerChecksum));
  MOERT_ASSIGN_OR_RETURN(header, decodeProfileHeader(bytes));
  MOERT_RETURN_IF_ERROR(checkProfileHeader(header, header.info.moeLayers.size()));
  MOERT_ASSIGN_OR_RETURN(layout, layoutOf(header.info));
  if (layout.headerOffset != prefix.headerOffset)
    return invalidInput("the header is at offset ", prefix.headerOffset,
                        ", expected from the sizes of the sections: ", layout.headerOffset);
  return {};
}

Result<std::unique_ptr<CalibrationProfile>> CalibrationProfile::open(const ByteSource &source) {
  auto opened = std::make_unique<Impl>();
  opened->source = &source;
  MOERT_RETURN_IF_ERROR(
      readHeader(source, opened->header, opened->layout).withContext(source.name()));
  return std::unique_ptr<CalibrationProfile>(new CalibrationProfile(std::move(opened)));
}

Result<std::unique_ptr<CalibrationProfile>> CalibrationProfile::open(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(FileSource file, FileSource::open(path));
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<CalibrationProfile> profile,
                         open(static_cast<const ByteSource &>(file)));
  profile->impl->file.emplace(std::move(file));
  profile->impl->source = &*profile->impl->file;
  return profile;
}

Result<std::unique_ptr<CalibrationProfile>>
CalibrationProfile::openUnfinished(const std::string &path, ProfileHeader header) {
  auto opened = std::make_unique<Impl>();
  MOERT_ASSIGN_OR_RETURN(FileSource file, FileSource::open(path));
  opened->source = &opened->file.emplace(std::move(file));
  MOERT_ASSIGN_OR_RETURN(opened->layout, layoutOf(header.info));
  opened->header = std::move(header);
  return std::unique_ptr<CalibrationProfile>(new CalibrationProfile(std::move(opened)));
}

namespace {

/// Reads a section from front to back, through a small buffer or in one piece; its checksum is
/// checked at the end. The section is inside the file: the layout ends where the header begins.
class SectionReader {
public:
  SectionReader(const ByteSource &from, uint64_t offset, uint64_t bytes)
      : source(from), position(offset), end(offset + bytes) {}

  Status read(std::span<std::byte> into) {
    MOERT_RETURN_IF_ERROR(source.read(position, into));
    checksum.update(into);
    position += into.size();
    return {};
  }

  template <typename T> Status readAll(std::vector<T> &values, uint64_t count) {
    values.resize(count);
    return read(std::as_writable_bytes(std::span(values)));
  }

  Status finish(const char *name, uint64_t expected) {
    std::vector<std::byte> padding(end - position);
    MOERT_RETURN_IF_ERROR(read(padding));
    if (uint64_t found = checksum.digest(); found != expected)
      return invalidInput("the ", name, " are damaged: their checksum is ", formatChecksum(found),
                          ", the header has ", formatChecksum(expected));
    return {};
  }

private:
  const ByteSource &source;
  uint64_t position;
  const uint64_t end;
  ChecksumStream checksum;
};

Status readRows(SectionReader &section, uint32_t tokens, uint32_t hiddenSize, uint64_t checksum,
                std::vector<float> &rows) {
  rows.resize(uint64_t(tokens) * hiddenSize);
  // The halves are read into the upper half of the output's memory and widened in place. Their
  // exponents come after all of them.
  auto *halves = reinterpret_cast<std::byte *>(rows.data()) + rows.size() * sizeof(uint16_t);
  for (uint64_t done = 0, all = rows.size() * sizeof(uint16_t); done < all;) {
    uint64_t count = std::min(kReadBytes, all - done);
    MOERT_RETURN_IF_ERROR(section.read({halves + done, count}));
    done += count;
  }
  std::vector<int16_t> exponents;
  MOERT_RETURN_IF_ERROR(section.readAll(exponents, tokens));
  MOERT_RETURN_IF_ERROR(section.finish("rows", checksum));
  std::vector<uint16_t> row(hiddenSize);
  for (uint32_t token = 0; token < tokens; ++token) {
    std::copy_n(halves + uint64_t(token) * hiddenSize * sizeof(uint16_t),
                hiddenSize * sizeof(uint16_t), std::as_writable_bytes(std::span(row)).data());
    if (!decodeHalfRow(row, exponents[token],
                       std::span(rows).subspan(uint64_t(token) * hiddenSize, hiddenSize)))
      return invalidInput("the row of token ", token, " with exponent ", exponents[token],
                          " is not finite");
  }
  return {};
}

// A token's experts must be valid and distinct.
Status checkExperts(std::span<const uint16_t> experts, uint32_t perToken, uint32_t count) {
  for (size_t i = 0; i < experts.size(); ++i) {
    size_t first = i - i % perToken;
    bool isRepeated = std::find(experts.begin() + static_cast<ptrdiff_t>(first),
                                experts.begin() + static_cast<ptrdiff_t>(i),
                                experts[i]) != experts.begin() + static_cast<ptrdiff_t>(i);
    if (experts[i] >= count || isRepeated)
      return invalidInput("token ", i / perToken, " has expert ", experts[i],
                          isRepeated ? " twice" : "", ", expected distinct ones of ", count);
  }
  return {};
}

Status checkCandidates(const ExpertCandidates &candidates, uint32_t experts) {
  MOERT_RETURN_IF_ERROR(checkExperts(candidates.experts, candidates.perToken, experts));
  for (size_t i = 0; i < candidates.probabilities.size(); ++i) {
    float highest = i % candidates.perToken == 0 ? 1 : candidates.probabilities[i - 1];
    // Also refuses a NaN.
    if (!(candidates.probabilities[i] >= 0 && candidates.probabilities[i] <= highest))
      return invalidInput("token ", i / candidates.perToken, " has a candidate of probability ",
                          candidates.probabilities[i], ", expected 0 to ", highest);
  }
  return {};
}

Status checkTrace(const LayerTrace &trace, const CalibrationInfo &info, size_t moeLayer) {
  const CalibrationInfo::MoeLayer &layer = info.moeLayers[moeLayer];
  MOERT_RETURN_IF_ERROR(checkExperts(trace.experts, trace.topK, layer.experts));
  for (float weight : trace.weights)
    if (!std::isfinite(weight))
      return invalidInput("an expert's weight is ", weight, ", expected a finite number");
  for (float norm : trace.inputNorms)
    if (!std::isfinite(norm) || norm < 0)
      return invalidInput("an input has the length ", norm, ", expected at least 0");
  MOERT_RETURN_IF_ERROR(checkCandidates(trace.candidates, layer.experts));
  for (size_t depth = 1; depth <= trace.predictions.size(); ++depth)
    MOERT_RETURN_IF_ERROR(
        checkCandidates(trace.predictions[depth - 1], info.moeLayers[moeLayer + depth].experts)
            .withContext(strCat("prediction ", depth, " layers ahead")));
  std::vector<uint64_t> counts(layer.experts);
  for (uint16_t expert : trace.experts)
    ++counts[expert];
  if (counts != layer.counts)
    return invalidInput("the header's counts of experts are not those of the trace");
  return {};
}

} // namespace

static std::string nameOf(const ByteSource &source, uint32_t layer) {
  return strCat(source.name(), ": layer ", layer);
}

Result<LayerTrace> CalibrationProfile::layerTrace(size_t moeLayer) const {
  const CalibrationInfo &about = info();
  const CalibrationInfo::MoeLayer &layer = about.moeLayers[moeLayer];
  const ProfileLayerPlace &place = impl->layout.layers[moeLayer];
  const uint64_t tokens = about.tokens.size();
  LayerTrace trace;
  trace.topK = layer.topK;
  trace.candidates.perToken = candidatesOf(layer.experts, layer.topK);
  for (uint32_t perToken : place.predicted)
    trace.predictions.emplace_back().perToken = perToken;

  SectionReader section(*impl->source, place.traceOffset, place.traceBytes);
  auto readTrace = [&]() -> Status {
    MOERT_RETURN_IF_ERROR(section.readAll(trace.inputNorms, tokens));
    MOERT_RETURN_IF_ERROR(section.readAll(trace.weights, tokens * trace.topK));
    MOERT_RETURN_IF_ERROR(
        section.readAll(trace.candidates.probabilities, tokens * trace.candidates.perToken));
    for (ExpertCandidates &later : trace.predictions)
      MOERT_RETURN_IF_ERROR(section.readAll(later.probabilities, tokens * later.perToken));
    MOERT_RETURN_IF_ERROR(section.readAll(trace.experts, tokens * trace.topK));
    MOERT_RETURN_IF_ERROR(
        section.readAll(trace.candidates.experts, tokens * trace.candidates.perToken));
    for (ExpertCandidates &later : trace.predictions)
      MOERT_RETURN_IF_ERROR(section.readAll(later.experts, tokens * later.perToken));
    MOERT_RETURN_IF_ERROR(section.finish("choices", impl->header.checksums[moeLayer].trace));
    return checkTrace(trace, about, moeLayer);
  };
  MOERT_RETURN_IF_ERROR(readTrace().withContext(nameOf(*impl->source, layer.layer)));
  return trace;
}

static Status checkMoments(const Moments &moments) {
  for (size_t block = 0; block < moments.blocks.size(); ++block) {
    const size_t cols = moments.blockCols(block);
    for (size_t row = 0; row < cols; ++row)
      for (size_t col = 0; col <= row; ++col) {
        const double value = moments.blocks[block][row * cols + col];
        if (!std::isfinite(value) || (row == col && value < 0))
          return invalidInput("found the moment ", value, row == col ? " of an input's square" : "",
                              ", expected a finite number", row == col ? " of at least 0" : "");
      }
  }
  return {};
}

Result<Moments> CalibrationProfile::residentMoments(size_t input) const {
  const ProfileInputPlace &place = impl->layout.inputs[input];
  const uint64_t tokens = info().tokens.size();
  Moments moments;
  moments.cols = info().residentInputs[input].cols;
  moments.weight = double(divideUp(tokens, residentMomentStep(tokens)));
  SectionReader section(*impl->source, place.offset, place.bytes);
  const auto readAll = [&]() -> Status {
    std::vector<float> triangle;
    for (uint32_t begin = 0; begin < moments.cols; begin += kMomentInputs) {
      const size_t cols = moments.blockCols(moments.blocks.size());
      MOERT_RETURN_IF_ERROR(section.readAll(triangle, momentNumbersOf(cols)));
      std::vector<double> &block = moments.blocks.emplace_back(cols * cols);
      const float *next = triangle.data();
      for (size_t row = 0; row < cols; ++row, next += row)
        std::copy_n(next, row + 1, &block[row * cols]);
    }
    MOERT_RETURN_IF_ERROR(section.finish("moments", impl->header.inputChecksums[input]));
    return checkMoments(moments);
  };
  MOERT_RETURN_IF_ERROR(
      readAll().withContext(strCat(impl->source->name(), ": resident input ", input)));
  return moments;
}

Result<LayerInputs> CalibrationProfile::layerInputs(size_t moeLayer) const {
  const CalibrationInfo &about = info();
  const ProfileLayerPlace &place = impl->layout.layers[moeLayer];
  LayerInputs inputs;
  inputs.tokens = static_cast<uint32_t>(about.tokens.size());
  {
    MOERT_ASSIGN_OR_RETURN(LayerTrace trace, layerTrace(moeLayer));
    inputs.experts.assign(trace.experts.begin(), trace.experts.end());
    inputs.weights = std::move(trace.weights);
  }
  SectionReader section(*impl->source, place.rowsOffset, place.rowsBytes);
  MOERT_RETURN_IF_ERROR(readRows(section, inputs.tokens, about.widthOf(moeLayer),
                                 impl->header.checksums[moeLayer].rows, inputs.rows)
                            .withContext(nameOf(*impl->source, about.moeLayers[moeLayer].layer)));
  return inputs;
}

} // namespace moec
