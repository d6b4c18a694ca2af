#include "compiler/profile/ProfileHeader.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"

#include <profile_generated.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace moert;

namespace moec {

namespace {

// Profile, layer, vectors of a layer.
constexpr uint32_t kMaxDepth = 8;
constexpr uint32_t kMaxTables = 1'000'000;

template <typename T> using FbVector = flatbuffers::Vector<T>;

/// Decodes the fields of a verified header. Unshared fields together cannot be larger than the
/// header; a writer never shares any.
class Decoder {
public:
  explicit Decoder(uint64_t headerBytes) : bytesLeft(headerBytes) {}

  Result<ProfileHeader> decode(const fb::Profile &in) {
    ProfileHeader header;
    CalibrationInfo &info = header.info;
    info.checkpointHash = {in.checkpoint_hash(), in.checkpoint_sample()};
    info.seed = in.seed();
    info.windowTokens = in.window_tokens();
    info.hiddenSize = in.hidden_size();
    info.vocabularySize = in.vocabulary_size();
    MOERT_RETURN_IF_ERROR(take(*in.tokens(), info.tokens));
    for (const fb::Text *text : *in.texts()) {
      CalibrationText &out = info.texts.emplace_back();
      MOERT_RETURN_IF_ERROR(takeName(*text->name(), out.name));
      out.hash = text->hash();
      out.bytes = text->bytes();
      out.windows = text->windows();
    }
    for (const fb::MoeLayer *layer : *in.moe_layers()) {
      CalibrationInfo::MoeLayer &out = info.moeLayers.emplace_back();
      out.layer = layer->layer();
      out.experts = layer->experts();
      out.topK = layer->top_k();
      out.hiddenSize = layer->hidden_size();
      MOERT_RETURN_IF_ERROR(take(*layer->counts(), out.counts));
      MOERT_RETURN_IF_ERROR(take(*layer->weight_sums(), out.weightSums));
      header.checksums.push_back({layer->rows_checksum(), layer->trace_checksum()});
    }
    for (const fb::ResidentInput *input : *in.resident_inputs()) {
      CalibrationInfo::ResidentInput &out = info.residentInputs.emplace_back();
      out.layer = input->layer();
      out.cols = input->cols();
      for (const flatbuffers::String *weight : *input->weights())
        MOERT_RETURN_IF_ERROR(takeName(*weight, out.weights.emplace_back()));
      header.inputChecksums.push_back(input->checksum());
    }
    return header;
  }

private:
  Status spend(uint64_t count, uint64_t bytesEach) {
    if (count > bytesLeft / bytesEach)
      return invalidInput("the header refers to the same bytes twice");
    bytesLeft -= count * bytesEach;
    return {};
  }
  Status takeName(const flatbuffers::String &string, std::string &value) {
    MOERT_RETURN_IF_ERROR(spend(string.size(), 1));
    value.assign(string.data(), string.size());
    return {};
  }
  template <typename T> Status take(const FbVector<T> &vector, std::vector<T> &values) {
    MOERT_RETURN_IF_ERROR(spend(vector.size(), sizeof(T)));
    values.assign(vector.begin(), vector.end());
    return {};
  }

  uint64_t bytesLeft;
};

} // namespace

std::vector<std::byte> encodeProfileHeader(const ProfileHeader &header) {
  const CalibrationInfo &info = header.info;
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fb::Text>> texts;
  for (const CalibrationText &text : info.texts)
    texts.push_back(fb::CreateText(builder, builder.CreateString(text.name), text.hash, text.bytes,
                                   text.windows));
  std::vector<flatbuffers::Offset<fb::MoeLayer>> layers;
  for (size_t i = 0; i < info.moeLayers.size(); ++i) {
    const CalibrationInfo::MoeLayer &layer = info.moeLayers[i];
    auto counts = builder.CreateVector(layer.counts);
    auto sums = builder.CreateVector(layer.weightSums);
    layers.push_back(fb::CreateMoeLayer(builder, layer.layer, layer.experts, layer.topK, counts,
                                        sums, header.checksums[i].rows, header.checksums[i].trace,
                                        layer.hiddenSize));
  }
  std::vector<flatbuffers::Offset<fb::ResidentInput>> inputs;
  for (size_t i = 0; i < info.residentInputs.size(); ++i) {
    const CalibrationInfo::ResidentInput &input = info.residentInputs[i];
    auto weights = builder.CreateVectorOfStrings(input.weights);
    inputs.push_back(fb::CreateResidentInput(builder, input.layer, input.cols, weights,
                                             header.inputChecksums[i]));
  }
  auto textsOffset = builder.CreateVector(texts);
  auto tokens = builder.CreateVector(info.tokens);
  auto layersOffset = builder.CreateVector(layers);
  auto inputsOffset = builder.CreateVector(inputs);
  builder.Finish(fb::CreateProfile(builder, info.checkpointHash.first, info.checkpointHash.sample,
                                   info.seed, info.windowTokens, info.hiddenSize,
                                   info.vocabularySize, textsOffset, tokens, layersOffset,
                                   inputsOffset),
                 fb::ProfileIdentifier());
  std::vector<std::byte> bytes(builder.GetSize());
  std::memcpy(bytes.data(), builder.GetBufferPointer(), bytes.size());
  return bytes;
}

Result<ProfileHeader> decodeProfileHeader(std::span<const std::byte> bytes) {
  const auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  flatbuffers::Verifier::Options limits;
  limits.max_depth = kMaxDepth;
  limits.max_tables = kMaxTables;
  flatbuffers::Verifier verifier(data, bytes.size(), limits);
  if (!fb::VerifyProfileBuffer(verifier))
    return invalidInput("the header is not well formed: a field is missing or an offset leaves "
                        "its ",
                        bytes.size(), " bytes");
  return Decoder(bytes.size()).decode(*fb::GetProfile(data));
}

static Status checkTokens(const CalibrationInfo &info) {
  if (info.windowTokens == 0 || info.hiddenSize == 0 || info.vocabularySize == 0)
    return invalidInput("windows of ", info.windowTokens, " tokens, a hidden size of ",
                        info.hiddenSize, " and a vocabulary of ", info.vocabularySize,
                        ", expected at least 1 of each");
  if (info.tokens.empty() || info.tokens.size() % info.windowTokens != 0 ||
      info.tokens.size() > UINT32_MAX)
    return invalidInput(info.tokens.size(), " tokens, expected whole windows of ",
                        info.windowTokens);
  for (int32_t token : info.tokens)
    if (token < 0 || static_cast<uint32_t>(token) >= info.vocabularySize)
      return invalidInput("token id ", token, ", expected 0 to ", info.vocabularySize - 1);
  uint64_t windows = 0;
  for (const CalibrationText &text : info.texts)
    windows += text.windows; // 32 bits each; there cannot be enough texts for 64 bits to overflow.
  if (windows != info.windows())
    return invalidInput("the texts have ", windows, " windows, the tokens make ", info.windows());
  return {};
}

static Status checkCounts(const CalibrationInfo::MoeLayer &layer, uint64_t tokens) {
  if (layer.counts.size() != layer.experts || layer.weightSums.size() != layer.experts)
    return invalidInput("counts of ", layer.counts.size(), " experts and weights of ",
                        layer.weightSums.size(), ", expected ", layer.experts);
  uint64_t chosen = 0;
  for (uint64_t count : layer.counts) {
    if (count > tokens)
      return invalidInput("an expert chosen ", count, " times, there are ", tokens, " tokens");
    chosen += count;
  }
  if (chosen != tokens * layer.topK)
    return invalidInput("experts were chosen ", chosen, " times, expected ", tokens * layer.topK);
  for (double sum : layer.weightSums)
    if (!std::isfinite(sum))
      return invalidInput("an expert's weights sum up to ", sum, ", expected a finite number");
  return {};
}

static Status checkLayer(const CalibrationInfo::MoeLayer &layer, uint32_t hiddenSize,
                         const uint32_t *before) {
  if (layer.hiddenSize >= hiddenSize)
    return invalidInput("a hidden size of its own of ", layer.hiddenSize,
                        ", expected less than the profile's ", hiddenSize);
  if (before && layer.layer <= *before)
    return invalidInput("it is the model's layer ", layer.layer, " and follows layer ", *before,
                        ", expected ascending layers");
  if (layer.experts == 0 || layer.experts > kMaxProfileExperts)
    return invalidInput(layer.experts, " experts, expected 1 to ", kMaxProfileExperts);
  if (layer.topK == 0 || layer.topK > layer.experts)
    return invalidInput(layer.topK, " chosen of ", layer.experts, " experts");
  return {};
}

static Status checkInputs(const ProfileHeader &header) {
  const std::vector<CalibrationInfo::ResidentInput> &inputs = header.info.residentInputs;
  if (header.inputChecksums.size() != inputs.size())
    return invalidInput(header.inputChecksums.size(), " checksums of resident inputs, expected ",
                        inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0 && inputs[i].layer < inputs[i - 1].layer)
      return invalidInput("resident input ", i, " is of layer ", inputs[i].layer,
                          " and follows layer ", inputs[i - 1].layer,
                          ", expected ascending layers");
    if (inputs[i].cols == 0 || inputs[i].weights.empty())
      return invalidInput("resident input ", i, " has ", inputs[i].cols, " elements and ",
                          inputs[i].weights.size(), " matrices, expected at least 1 of each");
  }
  return {};
}

Status checkProfileHeader(const ProfileHeader &header, size_t finishedLayers) {
  const CalibrationInfo &info = header.info;
  MOERT_RETURN_IF_ERROR(checkTokens(info));
  MOERT_RETURN_IF_ERROR(checkInputs(header));
  if (finishedLayers > info.moeLayers.size() || header.checksums.size() != info.moeLayers.size())
    return invalidInput(finishedLayers, " layers are finished and ", header.checksums.size(),
                        " have checksums, there are ", info.moeLayers.size());
  for (size_t i = 0; i < info.moeLayers.size(); ++i) {
    const CalibrationInfo::MoeLayer &layer = info.moeLayers[i];
    Status status =
        checkLayer(layer, info.hiddenSize, i == 0 ? nullptr : &info.moeLayers[i - 1].layer);
    if (status.isOk() && i < finishedLayers)
      status = checkCounts(layer, info.tokens.size());
    if (!status.isOk())
      return std::move(status).withContext(strCat("MoE layer ", i));
  }
  return {};
}

namespace {

// Adds sizes, and records an overflow.
struct CheckedSum {
  std::optional<uint64_t> value = 0;

  void add(std::optional<uint64_t> more) {
    value = value && more ? checkedAdd(*value, *more) : std::nullopt;
  }
  /// Adds tokens * each * bytes.
  void addRows(uint64_t tokens, uint64_t each, uint64_t bytes) {
    std::optional<uint64_t> rows = checkedMultiply(tokens, each);
    add(rows ? checkedMultiply(*rows, bytes) : rows);
  }
  void roundUp() { value = value ? checkedRoundUp(*value, kProfilePageBytes) : value; }
};

} // namespace

// Places the moments of resident matrices' inputs in the layers before `layer`.
static void placeInputs(const CalibrationInfo &info, uint64_t layer, ProfileLayout &layout,
                        CheckedSum &end) {
  for (size_t i = layout.inputs.size();
       i < info.residentInputs.size() && info.residentInputs[i].layer < layer && end.value; ++i) {
    const uint64_t cols = info.residentInputs[i].cols;
    const uint64_t offset = *end.value;
    end.addRows(cols / kMomentInputs, momentNumbersOf(kMomentInputs), sizeof(float));
    end.addRows(1, momentNumbersOf(cols % kMomentInputs), sizeof(float));
    end.roundUp();
    layout.inputs.push_back({offset, end.value.value_or(offset) - offset});
  }
}

Result<ProfileLayout> layoutOf(const CalibrationInfo &info) {
  ProfileLayout layout;
  const uint64_t tokens = info.tokens.size();
  CheckedSum end{kProfilePageBytes};
  for (size_t i = 0; i < info.moeLayers.size() && end.value; ++i) {
    const CalibrationInfo::MoeLayer &layer = info.moeLayers[i];
    placeInputs(info, layer.layer, layout, end);
    if (!end.value)
      break;
    ProfileLayerPlace place;
    place.rowsOffset = *end.value;
    end.addRows(tokens, uint64_t(info.widthOf(i)) + 1, sizeof(uint16_t));
    end.roundUp();
    place.traceOffset = end.value.value_or(0);
    uint64_t candidates = candidatesOf(layer.experts, layer.topK);
    for (size_t depth = 1; depth <= kPredictionDepths && i + depth < info.moeLayers.size() &&
                           info.widthOf(i + depth) == info.widthOf(i);
         ++depth) {
      const CalibrationInfo::MoeLayer &later = info.moeLayers[i + depth];
      place.predicted.push_back(candidatesOf(later.experts, later.topK));
      candidates += place.predicted.back();
    }
    end.addRows(tokens, 1 + uint64_t(layer.topK) + candidates, sizeof(float));
    end.addRows(tokens, layer.topK + candidates, sizeof(uint16_t));
    end.roundUp();
    if (!end.value)
      break;
    place.rowsBytes = place.traceOffset - place.rowsOffset;
    place.traceBytes = *end.value - place.traceOffset;
    layout.layers.push_back(std::move(place));
  }
  placeInputs(info, uint64_t(kAfterLayers) + 1, layout, end);
  if (!end.value)
    return invalidInput("the sections are larger than can be counted");
  layout.headerOffset = *end.value;
  return layout;
}

uint64_t ProfileLayout::endOf(size_t finishedLayers, size_t finishedInputs) const {
  uint64_t end = headerOffset;
  if (finishedLayers < layers.size())
    end = std::min(end, layers[finishedLayers].rowsOffset);
  if (finishedInputs < inputs.size())
    end = std::min(end, inputs[finishedInputs].offset);
  return end;
}

} // namespace moec
