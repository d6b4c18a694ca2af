// What the routers and predictors of a run chose, token by token, for replaying the run
// (compiler/report). Recorded in preallocated memory; a long run is recorded from its beginning as
// far as the memory goes. docs/run-profile.md describes the JSON.
#pragma once

#include "runtime/base/JsonWriter.h"
#include "runtime/base/OutputFile.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Memory that the choices of a run may take. 48 layers with 8 of 128 experts and 8 prefetch
/// candidates take 3.8 KB per token, so this is enough for 2,200 tokens.
constexpr uint64_t kMostRouteBytes = uint64_t(8) << 20;

/// Owned by one run, used by its thread. Invariants: chosen has topK entries and candidates has
/// `width` entries for each token of a layer and each depth; a prediction's candidates are padded
/// with its last one.
class RouteRecord {
public:
  /// Bytes for a run of at most `tokens` tokens with any of the artifact's plans.
  static uint64_t memoryBytes(const Artifact &artifact, uint64_t tokens);

  /// Records nothing.
  RouteRecord() = default;
  /// Room for `tokens` tokens, or as many as kMostRouteBytes hold.
  RouteRecord(const Artifact &artifact, uint64_t tokens);

  /// Experts that a MoE layer's router chose for the token at a position, best first.
  void addChosen(uint32_t moeLayer, uint32_t position, std::span<const int32_t> experts);
  /// What a predictor named for a MoE layer, so many MoE layers before it, while decoding the token
  /// at a position.
  void addCandidates(uint32_t moeLayer, uint32_t ahead, uint32_t position,
                     std::span<const PrefetchCandidate> candidates);

  /// Tokens from the beginning whose choices are complete in all layers.
  uint64_t tokens() const;

  /// Writes the key "routes" of an open object, layer by layer. `promptTokens`: tokens that no
  /// predictor runs for.
  Status write(JsonWriter &json, std::string &text, OutputFile &file, uint64_t promptTokens) const;

private:
  struct Layer {
    uint32_t topK = 0, width = 0;
    uint32_t depths = 1; // Predictions per token: those from 1 to so many layers before, or one.
    std::vector<uint16_t> chosen;
    std::vector<PrefetchCandidate> candidates;
    uint64_t tokens = 0; // Recorded choices, from the first token on.
    bool hasCandidates = false;
    size_t candidatesPerToken() const { return size_t(depths) * width; }
  };
  static Layer layerOf(const Artifact &artifact, size_t moeLayer);
  static uint64_t bytesPerToken(const Artifact &artifact);
  static uint64_t roomFor(const Artifact &artifact, uint64_t tokens);
  void writeCandidates(JsonWriter &json, const Layer &layer, uint64_t fromToken,
                       uint64_t count) const;

  uint64_t room = 0; // Tokens.
  std::vector<Layer> layers;
};

} // namespace moert
