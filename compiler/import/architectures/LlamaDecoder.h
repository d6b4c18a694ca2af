// Code that the families share: a pre-norm decoder in Llama's style,
//   h = embedding[ids];  per layer h += attention(norm h); h += network(norm h);  head(norm h)
// with the tensor names of nearly all published checkpoints. A family reads its own keys and fills
// in the differences.
#pragma once

#include "compiler/import/Architecture.h"
#include "compiler/import/Config.h"
#include "compiler/import/ModelDescription.h"
#include "compiler/import/architectures/Rope.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// The keys that have the same name in all families.
struct DecoderConfig {
  uint32_t vocabularySize = 0;
  uint32_t hiddenSize = 0;
  uint32_t layerCount = 0;
  uint32_t heads = 0;
  uint32_t kvHeads = 0;
  uint32_t headDim = 0;
  uint32_t maxPositions = 0;
  float epsilon = 0;
  moert::GluActivation activation;
  bool tiedHead = false; // From the config; describeDecoder() checks it against the tensors.
  /// Biases of queries, keys and values, and of the attention's output: attention_bias, unless the
  /// family changes them.
  bool inputBiases = false, outputBias = false;
  RopeKind rope;                 // Rotates whole heads, unless the family changes it.
  bool normsAddOne = false;      // Norms multiply by 1 + weight.
  std::string prefix = "model."; // All tensor names but the head's begin with it,
  std::string headPrefix;        // and the head's with this.
  std::string embedding = "embed_tokens";
  /// If not empty, the model's rotations, in place of the one that the config's keys give.
  std::vector<RopeDescription> ropes;
};

/// Refuses data types other than bfloat16, float16 and float32.
moert::Status checkDataTypes(const ConfigObject &config);

/// Limits of dimensions: far above any model, low enough that products of two fit 32 bits.
inline constexpr uint32_t kMaxLayers = 1024;
inline constexpr uint32_t kMaxWidth = 1 << 24;
inline constexpr uint32_t kMaxHeads = 1 << 14;
inline constexpr uint32_t kMaxHeadDim = 1 << 14;
inline constexpr uint32_t kMaxExperts = 1 << 16;
inline constexpr uint32_t kMaxWindow = 1u << 30;
inline constexpr uint32_t kMaxPositions = 1u << 30;
inline constexpr uint32_t kMaxLayerNumber = 1u << 20;
inline constexpr uint32_t kMaxSharedExperts = 1024;
/// Published convolutions have 4 taps, published states 2^19 elements.
inline constexpr uint32_t kMaxTaps = 64;
inline constexpr uint64_t kMaxStateElements = 1 << 26;
/// Convolutions are computed in panels of 16 elements.
inline constexpr uint32_t kLeastConvolved = 16;

/// Reads and checks these keys. Refuses what no supported family computes: activations other than
/// SiLU, data types other than bfloat16, float16 and float32.
moert::Result<DecoderConfig> readDecoderConfig(const ConfigObject &config,
                                               std::string_view epsilonKey = "rms_norm_eps");

/// The same without the keys of heads, for attention that has others.
moert::Result<DecoderConfig> readDecoderWithoutHeads(const ConfigObject &config,
                                                     std::string_view epsilonKey = "rms_norm_eps");

inline constexpr double kLeastMultiplier = 1e-6, kMostMultiplier = 1e6;

/// A factor on an embedding, on scores or on a residual branch.
moert::Result<float> readMultiplier(const ConfigObject &config, std::string_view key);

/// Rotates only the first elements of each head, by partial_rotary_factor or else `fallback`.
moert::Status setPartialRotation(const ConfigObject &config, DecoderConfig &decoder,
                                 std::optional<double> fallback = std::nullopt);

/// Experts per token: an integer from 1 to `experts`, which the config has as expertsKey.
moert::Result<uint32_t> readTopK(const ConfigObject &config, std::string_view key, uint32_t experts,
                                 std::string_view expertsKey);

/// The list of that key, each entry one of `known`; empty if the file has none.
moert::Result<std::vector<std::string>>
readLayerTypes(const ConfigObject &config, uint32_t layers,
               std::initializer_list<std::string_view> known, std::string_view key = "layer_types");

/// The width of `count` shared experts as one network; refuses the key's value if that is too wide.
moert::Result<uint32_t> sharedWidth(const ConfigObject &config, std::string_view key,
                                    uint32_t count, uint32_t width);

/// Which layers are routed, by decoder_sparse_step (layer l if l + 1 is a multiple) and
/// mlp_only_layers (never).
moert::Result<std::vector<bool>> readRoutedLayers(const ConfigObject &config, uint32_t layers);

/// Completes the description of one layer, whose tensor names begin with `prefix`
/// ("model.layers.3."). Called with everything but the network filled in.
using FillLayer = std::function<moert::Status(uint32_t layer, const std::string &prefix,
                                              LayerDescription &description)>;

/// Describes the whole model, with fillLayer for the networks: plain grouped-query attention with
/// rotary embedding, RMS norms, no biases, no window.
moert::Result<ModelDescription> describeDecoder(const ArchitectureInput &input,
                                                const DecoderConfig &decoder,
                                                const FillLayer &fillLayer);

/// Reads BOS and end tokens. End tokens are those of both files, generation_config.json's first,
/// since the model's authors generate with it. A default of the class that the vocabulary lacks is
/// never generated.
moert::Status readSpecialTokens(const ArchitectureInput &input, ModelDescription &model);

/// Describes the head, as "lm_head" or the embedding. The stored tensors decide, not the config's
/// flag, as in transformers 5: if both are stored and differ, the head is not tied; if only one is
/// stored, it serves as both.
moert::Status describeHead(const ArchitectureInput &input, const DecoderConfig &decoder,
                           ModelDescription &model);

/// An RMS norm of the decoder's epsilon over `width` elements.
NormDescription rmsNorm(const DecoderConfig &decoder, std::string tensor, uint32_t width);

/// A layer norm whose tensors begin with `module` ("model.norm.").
NormDescription layerNorm(const std::string &module, uint32_t width, float epsilon);

/// Elements that a norm of queries or keys covers together.
enum class NormExtent { kHead, kAllHeads };

/// Adds RMS norms of queries and keys whose tensors begin with these names ("...self_attn.q_norm").
void addHeadNorms(const DecoderConfig &decoder, const std::string &query, const std::string &key,
                  NormExtent extent, AttentionDescription &attention);

WeightSource matrixSource(std::string tensor, uint32_t rows, uint32_t cols);
WeightSource vectorSource(std::string tensor, uint32_t size);
LinearDescription linearLayer(const std::string &prefix, uint32_t outputs, uint32_t inputs);
void addBias(LinearDescription &linear, const std::string &prefix);

/// The names of the three matrices of a gated network: "gate_proj" or "w1" and so on.
struct GluNames {
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
};

/// A network without the names of its tensors; gated unless its activation has no gate.
struct GluKind {
  GluNames names;
  uint32_t hidden = 0;
  uint32_t width = 0;
  moert::GluActivation activation;
};

/// The routed experts of a layer.
struct RoutedConfig {
  uint32_t experts = 0;
  uint32_t topK = 0;
  uint32_t width = 0;
  bool renormalize = false;
};

/// A network whose matrices are prefix + name + ".weight".
GluDescription gluNetwork(const std::string &prefix, const GluKind &kind);

/// A softmax router whose tensors begin with `prefix` ("model.layers.3.mlp.gate.").
RouterDescription softmaxRouter(const DecoderConfig &decoder, const RoutedConfig &routed,
                                const std::string &prefix);

/// Experts in two tensors: gateUp [E, 2 * width, hidden] (gate's rows first; without a gate, [E,
/// width, hidden]) and down [E, hidden, width].
std::vector<GluDescription> fusedExperts(const std::string &gateUp, const std::string &down,
                                         const GluKind &kind, uint32_t count);

/// All experts of a layer, with names that begin with `prefix` ("model.layers.3.mlp.experts."): one
/// tensor per matrix and expert, or, if the checkpoint has such a tensor, fused as gate_up_proj and
/// down_proj.
moert::Result<std::vector<GluDescription>> describeExperts(const ArchitectureInput &input,
                                                           const std::string &prefix,
                                                           const GluKind &kind, uint32_t count);

/// A softmax router in module + "gate." and experts in module + "experts.".
moert::Result<MoeDescription> routedNetwork(const ArchitectureInput &input,
                                            const DecoderConfig &decoder,
                                            const RoutedConfig &routed, const std::string &module,
                                            const GluNames &names = {});

} // namespace moec
