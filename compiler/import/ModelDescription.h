// A model's architecture as data: the names and shapes of its tensors and the kinds of its parts.
// An importer fills it in from a checkpoint's config; the IR is built from it. Neither this file
// nor later stages depend on a family's name: the differences between families must be expressed
// with these fields or with a new one.
//
// Not here: the weights themselves (Checkpoint.h reads them piece by piece).
#pragma once

#include "compiler/import/MixerDescription.h"
#include "compiler/import/NetworkDescription.h"
#include "compiler/import/WeightSource.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moec {

/// Four neighbouring patches of a grid of side x side become one: linear(norm(their rows)).
struct MergeDescription {
  uint32_t side = 0;
  NormDescription norm;
  LinearDescription linear;

  static void parts(auto &self, const auto &visit) { visit(self.norm, self.linear); }
};

/// What a vision model has in place of an embedding: norm(linear(patch)) for each patch of an image
/// of side x side pixels.
struct PatchesDescription {
  uint32_t channels = 0, side = 0, patch = 0;
  LinearDescription linear;
  std::optional<NormDescription> norm;

  static void parts(auto &self, const auto &visit) { visit(self.linear, self.norm); }
};

/// How a branch reads and changes streams as Qwen3.8 has it (transformers, models/qwen4_exp): with
/// n = norm(each stream) * weight, it reads the mean of the streams of n * sigmoid(up silu(down
/// n)), and 2 * sigmoid(inject n) times its result is added to each stream. Products are divided by
/// the number of streams, but for that of `up`.
struct StreamGateDescription {
  NormDescription norm; // [m * H] of m streams of H elements.
  LinearDescription down, up;
  std::optional<LinearDescription> inject; // [m, m * H]; absent before the head.

  static void parts(auto &self, const auto &visit) {
    visit(self.norm, self.down, self.up, self.inject);
  }
};

/// Embeddings of n-grams of tokens, added to the streams (runtime/format/NgramRows.h): of the rows
/// e of the table, the value, times for each stream the sigmoid of the signed root of (keyNorm(key
/// e)
/// * queryNorm(stream), summed) / sqrt(H), and to that silu(a convolution over each tokens-th token
/// of its norm).
struct NgramDescription {
  uint32_t tokens = 0, heads = 0, leastRows = 0, number = 0, seed = 0, endToken = 0;
  WeightSource table;
  LinearDescription key, value;
  NormDescription keyNorm, queryNorm, taperNorm; // [m * H].
  WeightSource taps;

  static void parts(auto &self, const auto &visit) {
    visit(self.table, self.key, self.value, self.keyNorm, self.queryNorm, self.taperNorm,
          self.taps);
  }
};

/// The weights of the streams around a branch (runtime/format/StreamInstructions.h,
/// stream_weights), from the products of all streams, normalized together.
struct StreamMixDescription {
  WeightSource products;    // [(2 + m) * m, m * H] of m streams, or [m, m * H] before the head.
  WeightSource scale, base; // Vectors.

  static void parts(auto &self, const auto &visit) { visit(self.products, self.scale, self.base); }
};

/// Several residual streams in place of one: hyper-connections (Xie et al. 2025, arXiv 2512.24880).
/// At first all are the embedding.
struct StreamsDescription {
  uint32_t count = 0, iterations = 1;
  float epsilon = 0, normEpsilon = 0;
  std::optional<StreamMixDescription> head;      // Absent: the head reads the streams' mean,
  std::optional<StreamGateDescription> headGate; // or what this gives.

  static void parts(auto &self, const auto &visit) { visit(self.head, self.headGate); }
};

/// h += scale * outputNorm(attention(norm h)); h += cross attention(crossNorm h); h += scale *
/// outputNorm(network(norm h)); h *= outputScale. What is absent changes nothing.
struct LayerDescription {
  bool hasMixer = true; // Otherwise the layer is its network alone.
  /// With the model's streams: how each branch reads and changes them.
  std::optional<StreamMixDescription> attentionStreams, networkStreams;
  std::optional<StreamGateDescription> attentionGate, networkGate; // In their place.
  std::optional<NgramDescription> ngrams;                          // Before the attention.
  std::optional<NormDescription> attentionNorm, attentionOutputNorm;
  AttentionDescription attention; // See hasAttention().
  std::optional<LatentAttentionDescription> latentAttention;
  std::optional<CompressedAttentionDescription> compressedAttention;
  std::optional<DeltaNetDescription> deltaNet;
  std::optional<ShortConvolutionDescription> shortConvolution;
  std::optional<StateSpaceDescription> stateSpace;
  std::optional<SelectiveScanDescription> selectiveScan;
  std::optional<WindowAttentionDescription> windowAttention;
  /// Attention of a decoder to the output of its encoder, from which keys and values come.
  std::optional<NormDescription> crossNorm;
  std::optional<AttentionDescription> cross;
  std::optional<NormDescription> networkNorm, networkOutputNorm;
  std::optional<GluDescription> dense; // One of dense and moe, or, with a mixer, neither.
  std::optional<MoeDescription> moe;
  std::optional<WeightSource> outputScale; // One number.
  std::optional<MergeDescription> merge;   // After the layer.

  bool hasAttention() const {
    return hasMixer && !latentAttention && !compressedAttention && !deltaNet && !shortConvolution &&
           !stateSpace && !selectiveScan && !windowAttention;
  }

  static void parts(auto &self, const auto &visit) {
    visit(self.attentionNorm, self.attentionOutputNorm, self.crossNorm, self.networkNorm,
          self.networkOutputNorm, self.attentionStreams, self.networkStreams, self.attentionGate,
          self.networkGate, self.ngrams, self.latentAttention, self.compressedAttention,
          self.deltaNet, self.shortConvolution, self.stateSpace, self.selectiveScan,
          self.windowAttention);
    if (self.hasAttention())
      visit(self.attention);
    visit(self.cross, self.dense, self.moe, self.outputScale, self.merge);
  }
};

/// Positions that are added to the embedding.
struct PositionDescription {
  std::optional<WeightSource> table; // [positions, H]: learned. Otherwise
  uint32_t rope = 0, offset = 0;     // [sines | cosines] of this rope at position + offset.

  static void parts(auto &self, const auto &visit) { visit(self.table); }
};

struct ModelDescription {
  std::string modelType; // As in the config: "mixtral", "qwen2_moe".
  uint32_t vocabularySize = 0;
  uint32_t hiddenSize = 0;
  uint32_t maxPositions = 0;
  WeightSource embedding; // [V, H].
  /// A vision model: images become the mean of their rows' final norms, and its head's logits, of
  /// vocabularySize classes. It has no embedding.
  std::optional<PatchesDescription> patches;
  float embeddingScale = 1;
  float residualScale = 1;
  std::vector<RopeDescription> ropes; // Layers with the same rotation share an entry.
  std::optional<StreamsDescription> streams;
  std::vector<PositionBiasDescription> positionBiases;
  std::optional<PositionDescription> positions;
  std::vector<LayerDescription> layers;
  /// The first layers are an encoder's: they compute the input of a sequence as a whole, and all
  /// other layers attend to encoderNorm of their output. 0: the model is a decoder alone.
  uint32_t encoderLayers = 0;
  std::optional<NormDescription> encoderNorm;
  NormDescription finalNorm;                   // None if its weight has no rows.
  std::optional<LinearDescription> beforeHead; // The head reads silu(beforeHead x).
  LinearDescription head;                      // The embedding itself if tied.
  bool tiedHead = false;
  float logitsScale = 1;
  std::optional<float> logitsSoftCap; // Logits become cap * tanh(logit / cap), after the scale.
  std::optional<int32_t>
      bosToken;                   // Sequences begin with it; those of the decoder, if there is one.
  std::vector<int32_t> eosTokens; // Generation stops at any of them.
  /// Keys that shape the model and that config.json lacks, with the defaults taken for them:
  /// "hidden_size (4096)".
  std::vector<std::string> defaultedKeys;
  /// Prefixes of tensors that the text does not need: other parts of the checkpoint, such as a
  /// vision tower, and a stored copy of a tied head. Any other tensor that is not described is
  /// refused.
  std::vector<std::string> otherParts;

  static void parts(auto &self, const auto &visit) {
    visit(self.patches, self.embedding, self.positions, self.positionBiases, self.encoderNorm,
          self.layers, self.streams, self.finalNorm, self.beforeHead, self.head);
  }
};

} // namespace moec
