#include "runtime/serving/RouteRecord.h"

#include <algorithm>

namespace moert {

/// The sizes for a MoE layer with any plan.
RouteRecord::Layer RouteRecord::layerOf(const Artifact &artifact, size_t moeLayer) {
  Layer layer;
  layer.topK = artifact.moeLayers[moeLayer].topK;
  for (const Plan &plan : artifact.plans)
    if (moeLayer < plan.prefetches.size() &&
        plan.prefetches[moeLayer].predictor != Predictor::kOff) {
      const PrefetchRule &rule = plan.prefetches[moeLayer];
      layer.width = std::max<uint32_t>(layer.width, rule.candidates);
      if (rule.predictor == Predictor::kAdaptiveGate)
        layer.depths = std::max<uint32_t>(layer.depths, rule.ahead);
    }
  return layer;
}

uint64_t RouteRecord::bytesPerToken(const Artifact &artifact) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < artifact.moeLayers.size(); ++i) {
    const Layer layer = layerOf(artifact, i);
    bytes += layer.topK * sizeof(uint16_t) + layer.candidatesPerToken() * sizeof(PrefetchCandidate);
  }
  return bytes;
}

uint64_t RouteRecord::roomFor(const Artifact &artifact, uint64_t tokens) {
  const uint64_t each = bytesPerToken(artifact);
  return each == 0 ? 0 : std::min(tokens, kMostRouteBytes / each);
}

uint64_t RouteRecord::memoryBytes(const Artifact &artifact, uint64_t tokens) {
  return tokens == 0 ? 0
                     : roomFor(artifact, tokens) * bytesPerToken(artifact) +
                           artifact.moeLayers.size() * sizeof(Layer);
}

RouteRecord::RouteRecord(const Artifact &artifact, uint64_t tokens)
    : room(roomFor(artifact, tokens)), layers(tokens == 0 ? 0 : artifact.moeLayers.size()) {
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i] = layerOf(artifact, i);
    layers[i].chosen.resize(room * layers[i].topK);
    layers[i].candidates.resize(room * layers[i].candidatesPerToken());
  }
}

void RouteRecord::addChosen(uint32_t moeLayer, uint32_t position,
                            std::span<const int32_t> experts) {
  if (position >= room || moeLayer >= layers.size())
    return;
  Layer &layer = layers[moeLayer];
  const size_t count = std::min<size_t>(layer.topK, experts.size());
  for (size_t i = 0; i < count; ++i)
    layer.chosen[size_t(position) * layer.topK + i] = static_cast<uint16_t>(experts[i]);
  layer.tokens = std::max<uint64_t>(layer.tokens, uint64_t(position) + 1);
}

void RouteRecord::addCandidates(uint32_t moeLayer, uint32_t ahead, uint32_t position,
                                std::span<const PrefetchCandidate> candidates) {
  if (position >= room || moeLayer >= layers.size() || candidates.empty())
    return;
  Layer &layer = layers[moeLayer];
  layer.hasCandidates = layer.width > 0;
  const size_t first = size_t(position) * layer.candidatesPerToken() +
                       (std::min(ahead, layer.depths) - 1) * layer.width;
  for (size_t i = 0; i < layer.width; ++i)
    layer.candidates[first + i] = candidates[std::min(i, candidates.size() - 1)];
}

uint64_t RouteRecord::tokens() const {
  uint64_t complete = layers.empty() ? 0 : UINT64_MAX;
  for (const Layer &layer : layers)
    complete = std::min(complete, layer.tokens);
  return complete;
}

void RouteRecord::writeCandidates(JsonWriter &json, const Layer &layer, uint64_t fromToken,
                                  uint64_t count) const {
  const size_t perToken = layer.candidatesPerToken();
  const std::span<const PrefetchCandidate> written =
      layer.hasCandidates && fromToken < count
          ? std::span(layer.candidates)
                .subspan(fromToken * perToken, (count - fromToken) * perToken)
          : std::span<const PrefetchCandidate>();
  json.beginObject();
  json.key("per_token").number(written.empty() ? 0 : layer.width);
  json.key("depths").number(layer.depths);
  json.key("experts").beginArray();
  for (const PrefetchCandidate &candidate : written)
    json.number(candidate.expert);
  json.endArray();
  json.key("probabilities").beginArray();
  for (const PrefetchCandidate &candidate : written)
    json.number(candidate.probability);
  json.endArray();
  json.endObject();
}

Status RouteRecord::write(JsonWriter &json, std::string &text, OutputFile &file,
                          uint64_t promptTokens) const {
  const auto flush = [&]() -> Status {
    text += '\n';
    MOERT_RETURN_IF_ERROR(file.append(text));
    text.clear();
    return {};
  };
  const uint64_t count = tokens();
  json.key("routes").beginObject();
  json.key("tokens").number(count);
  json.key("chosen").beginArray();
  for (const Layer &layer : layers) {
    json.numbers(std::span(layer.chosen).first(count * layer.topK));
    MOERT_RETURN_IF_ERROR(flush());
  }
  json.endArray();
  json.key("candidates").beginArray();
  for (const Layer &layer : layers) {
    writeCandidates(json, layer, promptTokens, count);
    MOERT_RETURN_IF_ERROR(flush());
  }
  json.endArray();
  json.endObject();
  return {};
}

} // namespace moert
