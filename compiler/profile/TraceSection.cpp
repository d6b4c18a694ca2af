#include "compiler/profile/TraceSection.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

using namespace moert;

namespace moec {

static_assert(std::endian::native == std::endian::little, "the section is written in memory order");

namespace {

constexpr uint32_t kMagic = 0x54454F4D; // "MOET"
constexpr uint32_t kVersion = 3, kVersionWithoutRuns = 2, kVersionWithoutScores = 1;
constexpr uint32_t kMostWindowTokens = 1 << 20, kMostWindows = 1 << 20; // No product overflows.

struct Header {
  uint32_t magic = kMagic, version = kVersion;
  uint32_t windowTokens = 0, windows = 0, layers = 0, zero = 0;
};

struct LayerHeader {
  uint32_t experts = 0, topK = 0;
  uint32_t perToken[kPredictionDepths] = {}; // 0 where the model ends.
};

uint32_t bytesOfId(uint32_t experts) {
  return experts <= 256 ? 1 : 2;
}

class Encoder {
public:
  template <typename T> void put(const T &value) {
    const auto *from = reinterpret_cast<const std::byte *>(&value);
    bytes.insert(bytes.end(), from, from + sizeof(T));
  }
  template <typename T> void putAll(const std::vector<T> &values) {
    for (const T &value : values)
      put(value);
  }
  void putIds(const std::vector<uint16_t> &ids, uint32_t experts) {
    for (uint16_t id : ids) {
      if (bytesOfId(experts) == 1)
        put(static_cast<uint8_t>(id));
      else
        put(id);
    }
  }

  std::vector<std::byte> bytes;
};

class Decoder {
public:
  explicit Decoder(std::span<const std::byte> section) : left(section) {}

  template <typename T> Status take(T &value) {
    if (left.size() < sizeof(T))
      return cutShort();
    std::memcpy(&value, left.data(), sizeof(T));
    left = left.subspan(sizeof(T));
    return {};
  }

  /// Reads `count` ids, each below `experts`.
  Status takeIds(uint64_t count, uint32_t experts, std::vector<uint16_t> &ids) {
    const uint32_t size = bytesOfId(experts);
    if (count > left.size() / size)
      return cutShort();
    ids.resize(count);
    for (uint64_t i = 0; i < count; ++i) {
      uint16_t id = 0;
      std::memcpy(&id, left.data() + i * size, size);
      if (id >= experts)
        return invalidInput("the trace names expert ", id, " of a layer that has ", experts);
      ids[i] = id;
    }
    left = left.subspan(count * size);
    return {};
  }

  /// Reads `count` numbers from `least` to `most`.
  Status takeFloats(uint64_t count, float least, float most, std::vector<float> &values) {
    if (count > left.size() / sizeof(float))
      return cutShort();
    values.resize(count);
    std::memcpy(values.data(), left.data(), count * sizeof(float));
    for (float value : values)
      if (!(value >= least && value <= most))
        return invalidInput("the trace has a score of ", value, ", expected ", least, " to ", most);
    left = left.subspan(count * sizeof(float));
    return {};
  }

  Status takeProbabilities(uint64_t count, std::vector<uint8_t> &probabilities) {
    if (count > left.size())
      return cutShort();
    probabilities.resize(count);
    std::memcpy(probabilities.data(), left.data(), count);
    left = left.subspan(count);
    return {};
  }

  /// Reads a number of hashes, and the hashes, which ascend.
  Status takeRuns(std::vector<uint64_t> &runs) {
    uint64_t count = 0;
    MOERT_RETURN_IF_ERROR(take(count));
    if (count > left.size() / sizeof(uint64_t))
      return cutShort();
    runs.resize(count);
    for (uint64_t i = 0; i < count; ++i) {
      MOERT_RETURN_IF_ERROR(take(runs[i]));
      if (i > 0 && runs[i] <= runs[i - 1])
        return invalidInput("the trace's runs of text ", i - 1, " and ", i,
                            " do not ascend, expected ascending hashes");
    }
    return {};
  }

  size_t bytesLeft() const { return left.size(); }

private:
  static Status cutShort() { return invalidInput("the trace ends too early"); }

  std::span<const std::byte> left;
};

Status checkDistinct(const TracedLayer &layer, size_t index) {
  for (size_t begin = 0; begin < layer.chosen.size(); begin += layer.topK)
    for (size_t i = begin; i < begin + layer.topK; ++i)
      for (size_t j = begin; j < i; ++j)
        if (layer.chosen[i] == layer.chosen[j])
          return invalidInput("the trace has expert ", layer.chosen[i], " of MoE layer ", index,
                              " twice for one token");
  return {};
}

Status takeScores(Decoder &in, size_t index, uint64_t tokens, TracedLayer &layer) {
  // Routers scale weights; no factor of a known model is near this.
  constexpr float kLargestWeight = 1e6F;
  MOERT_RETURN_IF_ERROR(in.take(layer.candidates));
  if (layer.candidates > layer.experts)
    return invalidInput("the trace has scores of ", layer.candidates, " experts in MoE layer ",
                        index, ", expected at most ", layer.experts);
  MOERT_RETURN_IF_ERROR(
      in.takeFloats(tokens * layer.topK, -kLargestWeight, kLargestWeight, layer.weights));
  MOERT_RETURN_IF_ERROR(in.takeIds(tokens * layer.candidates, layer.experts, layer.likeliest));
  return in.takeFloats(tokens * layer.candidates, 0, 1, layer.likelihoods);
}

Status checkHeaders(const Header &header, std::span<const LayerHeader> layers,
                    std::span<const uint32_t> layerExperts) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerHeader &layer = layers[i];
    if (layer.experts != layerExperts[i])
      return invalidInput("the trace has ", layer.experts, " experts in MoE layer ", i,
                          ", expected ", layerExperts[i]);
    if (layer.topK == 0 || layer.topK > layer.experts)
      return invalidInput("the trace has ", layer.topK, " experts per token in MoE layer ", i,
                          ", expected 1 to ", layer.experts);
    for (size_t d = 0; d < kPredictionDepths; ++d) {
      const uint32_t most = i + d + 1 < layers.size() ? layers[i + d + 1].experts : 0;
      if (layer.perToken[d] > most)
        return invalidInput("the trace has ", layer.perToken[d], " predictions ", d + 1,
                            " layers after MoE layer ", i, ", expected at most ", most);
    }
  }
  if (header.windowTokens == 0 || header.windowTokens > kMostWindowTokens || header.windows == 0 ||
      header.windows > kMostWindows)
    return invalidInput("the trace has ", header.windows, " windows of ", header.windowTokens,
                        " tokens, expected 1 to ", kMostWindows, " of 1 to ", kMostWindowTokens);
  return {};
}

} // namespace

bool PlanTrace::hasScores() const {
  return !layers.empty() && std::all_of(layers.begin(), layers.end(), [](const TracedLayer &layer) {
    return !layer.weights.empty();
  });
}

static uint32_t versionOf(const PlanTrace &trace) {
  if (!trace.hasScores())
    return kVersionWithoutScores;
  return trace.readRuns ? kVersion : kVersionWithoutRuns;
}

std::vector<std::byte> encodeTrace(const PlanTrace &trace) {
  Encoder out;
  out.put(Header{.version = versionOf(trace),
                 .windowTokens = trace.windowTokens,
                 .windows = trace.windows,
                 .layers = static_cast<uint32_t>(trace.layers.size())});
  for (const TracedLayer &layer : trace.layers) {
    LayerHeader header{layer.experts, layer.topK, {}};
    for (size_t d = 0; d < layer.ahead.size(); ++d)
      header.perToken[d] = layer.ahead[d].perToken;
    out.put(header);
  }
  for (size_t i = 0; i < trace.layers.size(); ++i) {
    const TracedLayer &layer = trace.layers[i];
    out.putIds(layer.chosen, layer.experts);
    for (size_t d = 0; d < layer.ahead.size(); ++d) {
      out.putIds(layer.ahead[d].experts, trace.layers[i + d + 1].experts);
      out.putAll(layer.ahead[d].probabilities);
    }
  }
  for (const TracedLayer &layer : trace.layers) {
    if (!trace.hasScores())
      break;
    out.put(layer.candidates);
    out.putAll(layer.weights);
    out.putIds(layer.likeliest, layer.experts);
    out.putAll(layer.likelihoods);
  }
  if (versionOf(trace) == kVersion) {
    out.put(static_cast<uint64_t>(trace.readRuns->size()));
    out.putAll(*trace.readRuns);
  }
  return std::move(out.bytes);
}

Result<PlanTrace> decodeTrace(std::span<const std::byte> bytes,
                              std::span<const uint32_t> layerExperts) {
  Decoder in(bytes);
  Header header;
  MOERT_RETURN_IF_ERROR(in.take(header));
  if (header.magic != kMagic || header.zero != 0)
    return invalidInput("this is not a trace: it does not begin with its magic number");
  if (header.version < kVersionWithoutScores || header.version > kVersion)
    return invalidInput("the trace has version ", header.version, ", expected ",
                        kVersionWithoutScores, " to ", kVersion);
  if (header.layers != layerExperts.size())
    return invalidInput("the trace has ", header.layers, " MoE layers, expected ",
                        layerExperts.size());
  std::vector<LayerHeader> headers(header.layers);
  for (LayerHeader &layer : headers)
    MOERT_RETURN_IF_ERROR(in.take(layer));
  MOERT_RETURN_IF_ERROR(checkHeaders(header, headers, layerExperts));

  PlanTrace trace{header.windowTokens, header.windows, {}};
  for (size_t i = 0; i < headers.size(); ++i) {
    TracedLayer &layer = trace.layers.emplace_back();
    layer.experts = headers[i].experts;
    layer.topK = headers[i].topK;
    MOERT_RETURN_IF_ERROR(in.takeIds(trace.tokens() * layer.topK, layer.experts, layer.chosen));
    MOERT_RETURN_IF_ERROR(checkDistinct(layer, i));
    for (size_t d = 0; d < kPredictionDepths && headers[i].perToken[d] > 0; ++d) {
      TracedPredictions &ahead = layer.ahead.emplace_back();
      ahead.perToken = headers[i].perToken[d];
      const uint64_t count = trace.tokens() * ahead.perToken;
      MOERT_RETURN_IF_ERROR(in.takeIds(count, headers[i + d + 1].experts, ahead.experts));
      MOERT_RETURN_IF_ERROR(in.takeProbabilities(count, ahead.probabilities));
    }
  }
  for (size_t i = 0; i < headers.size() && header.version > kVersionWithoutScores; ++i)
    MOERT_RETURN_IF_ERROR(takeScores(in, i, trace.tokens(), trace.layers[i]));
  if (header.version == kVersion)
    MOERT_RETURN_IF_ERROR(in.takeRuns(trace.readRuns.emplace()));
  if (in.bytesLeft() != 0)
    return invalidInput("the trace is followed by ", in.bytesLeft(), " bytes");
  return trace;
}

static uint64_t bytesPerToken(const CalibrationInfo &info) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < info.moeLayers.size(); ++i) {
    const uint32_t experts = info.moeLayers[i].experts, topK = info.moeLayers[i].topK;
    bytes += uint64_t(topK) * (bytesOfId(experts) + sizeof(float)) +
             uint64_t(candidatesOf(experts, topK)) * (bytesOfId(experts) + sizeof(float));
    for (size_t t = i + 1; t <= i + kPredictionDepths && t < info.moeLayers.size(); ++t)
      bytes += uint64_t(candidatesOf(info.moeLayers[t].experts, info.moeLayers[t].topK)) *
               (bytesOfId(info.moeLayers[t].experts) + 1);
  }
  return bytes;
}

// Every third window is held out for forecasts.
static uint32_t forecastWindows(uint32_t windows) {
  return (windows + 1) / 3;
}

uint64_t PlanTrace::decidingTokens() const {
  if (windows > 1)
    return uint64_t(windows - forecastWindows(windows)) * windowTokens;
  const uint32_t decoded = windowTokens - std::min(windowTokens, promptTokens());
  return windowTokens - (decoded > 1 ? std::max(1u, decoded / 3) : 0);
}

std::vector<uint32_t> tracedWindows(uint32_t windows, uint32_t picked) {
  std::vector<uint32_t> deciding, forecast;
  for (uint64_t i = 0; i < picked; ++i) {
    const uint64_t window = (2 * i + 1) * windows / (2 * uint64_t(picked));
    (i % 3 == 1 ? forecast : deciding).push_back(static_cast<uint32_t>(window));
  }
  deciding.insert(deciding.end(), forecast.begin(), forecast.end());
  return deciding;
}

std::vector<TokenRange> heldOutTokens(const CalibrationInfo &info, const PlanTrace &trace) {
  const bool hasOthers = info.windows() >= 2 * trace.windows;
  const uint64_t firstToken = hasOthers ? 0 : trace.decidingTokens();
  const std::vector<uint32_t> windows = tracedWindows(info.windows(), trace.windows);
  std::vector<TokenRange> ranges;
  for (uint64_t i = 0; i < windows.size(); ++i) {
    const uint64_t begin = i * trace.windowTokens, end = begin + trace.windowTokens;
    const uint64_t profileBegin = uint64_t(windows[i]) * trace.windowTokens;
    if (end > firstToken)
      ranges.push_back(
          {profileBegin + std::max(begin, firstToken) - begin, profileBegin + trace.windowTokens});
  }
  return ranges;
}

namespace {

/// Copies the chosen windows of an array with a fixed number of elements per token.
class WindowPicker {
public:
  WindowPicker(uint32_t windows, uint32_t picked, uint32_t windowTokens)
      : chosen(tracedWindows(windows, picked)), tokens(windowTokens) {}

  template <typename From, typename To, typename Convert>
  void pick(const std::vector<From> &from, uint64_t perToken, std::vector<To> &to,
            Convert convert) const {
    to.reserve(chosen.size() * tokens * perToken);
    for (uint64_t window : chosen) {
      auto begin = from.begin() + static_cast<ptrdiff_t>(window * tokens * perToken);
      std::transform(begin, begin + static_cast<ptrdiff_t>(tokens * perToken),
                     std::back_inserter(to), convert);
    }
  }

private:
  std::vector<uint32_t> chosen;
  uint32_t tokens;
};

} // namespace

static uint8_t byteOf(float probability) {
  return static_cast<uint8_t>(std::lround(static_cast<double>(probability) * 255));
}

Result<PlanTrace> makePlanTrace(const CalibrationProfile &profile, uint64_t mostBytes,
                                uint64_t mostTokens) {
  const CalibrationInfo &info = profile.info();
  const uint64_t perWindow = std::max<uint64_t>(1, bytesPerToken(info) * info.windowTokens);
  const uint64_t fitting = std::min(mostBytes / perWindow, mostTokens / info.windowTokens);
  const auto picked =
      static_cast<uint32_t>(std::clamp<uint64_t>(fitting, 1, std::max(1u, info.windows())));
  const WindowPicker picker(info.windows(), picked, info.windowTokens);
  PlanTrace trace{info.windowTokens, picked, {}};
  const auto same = [](uint16_t id) { return id; };
  for (size_t i = 0; i < info.moeLayers.size(); ++i) {
    MOERT_ASSIGN_OR_RETURN(LayerTrace from, profile.layerTrace(i));
    TracedLayer &layer = trace.layers.emplace_back();
    layer.experts = info.moeLayers[i].experts;
    layer.topK = from.topK;
    picker.pick(from.experts, from.topK, layer.chosen, same);
    const auto sameScore = [](float score) { return score; };
    picker.pick(from.weights, from.topK, layer.weights, sameScore);
    layer.candidates = from.candidates.perToken;
    picker.pick(from.candidates.experts, layer.candidates, layer.likeliest, same);
    picker.pick(from.candidates.probabilities, layer.candidates, layer.likelihoods, sameScore);
    for (const ExpertCandidates &prediction : from.predictions) {
      TracedPredictions &ahead = layer.ahead.emplace_back();
      ahead.perToken = prediction.perToken;
      picker.pick(prediction.experts, ahead.perToken, ahead.experts, same);
      picker.pick(prediction.probabilities, ahead.perToken, ahead.probabilities, byteOf);
    }
  }
  return trace;
}

} // namespace moec
