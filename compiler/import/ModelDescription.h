// A model's architecture as data: the names and shapes of its tensors and the kinds of its parts.
// An importer fills it in from a checkpoint's config; the IR is built from it. Neither this file
// nor later stages depend on a family's name: the differences between families must be expressed
// with these fields or with a new one.
//
// Not here: the weights themselves (Checkpoint.h reads them piece by piece).
#pragma once

#include "runtime/format/Instruction.h"
#include "runtime/policy/Capacity.h"
#include "runtime/policy/Routing.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moec {

/// A matrix or vector as a part of a checkpoint's tensor. Linear weights are [outputs, inputs].
/// Most parts are a whole tensor; fused checkpoints keep all experts in one tensor [E, rows, cols],
/// with the rows of up below those of gate, and a part is one expert and a range of rows.
struct WeightSource {
  std::string tensor; // Name in the checkpoint.
  uint32_t rows = 0;  // Rows of the part. A vector of n elements is 1 x n.
  uint32_t cols = 0;
  std::optional<uint32_t> index; // Leading index into a 3-D tensor.
  uint32_t firstRow = 0;         // First row of the part inside the (indexed) matrix.
  uint32_t rowStep = 1;          // 2 if two matrices are interleaved row by row.
  bool transposed = false;       // Stored [inputs, outputs].
  // Not 0: the tensor is [stackedVectors, n], and the part, a vector, is taken from all of its
  // elements in their order, every rowStep-th from firstRow on. With a * in the tensor's name they
  // are in tensors of their own, whose names have 0, 1, ... in its place (tensorsOf()).
  uint32_t stackedVectors = 0;
  // The part is this many blocks of rows, one below the other; a divisor of rows. Each block is
  // stored like a part of its own, blockStep stored rows below the block before it.
  uint32_t blocks = 1, blockStep = 0;
  bool addsOne = false;  // 1 is added to every element: a norm's that multiplies by 1 + weight.
  bool integers = false; // Stored as I32 or I64: numbers below 2^24, as those of experts.
  uint32_t shards = 1;   // Tensors of rows / shards rows each; `*` in the name is their number.

  /// The part in one of the shards.
  WeightSource shard(uint32_t number) const {
    WeightSource one = *this;
    one.tensor.replace(one.tensor.find('*'), 1, std::to_string(number));
    one.rows /= shards;
    one.shards = 1;
    return one;
  }
};

/// The single tensors that a source is taken from: itself, or the vectors that it consists of.
std::vector<WeightSource> tensorsOf(const WeightSource &source);

/// y = W x + b.
struct LinearDescription {
  WeightSource weight;
  std::optional<WeightSource> bias;
};

enum class NormKind { kRms, kLayer };

struct NormDescription {
  NormKind kind = NormKind::kRms;
  float epsilon = 0;
  WeightSource weight;
  std::optional<WeightSource> bias;
};

enum class RopeStyle { kHalf, kInterleaved };

/// Rotary embedding with the scaling already applied: angle = position * inverseFrequencies[i], cos
/// and sin multiplied by attentionFactor. rotaryDim = 2 * inverseFrequencies.size().
struct RopeDescription {
  RopeStyle style = RopeStyle::kHalf;
  std::vector<float> inverseFrequencies;
  float attentionFactor = 1;
  // Sequences of more tokens than this use the other factor and frequencies; 0: none do.
  uint32_t originalPositions = 0;
  std::vector<float> longInverseFrequencies;
  float longAttentionFactor = 1;
};

/// A factor that grows with the position: 1 + scale * ln(1 + floor((position + ahead) / period)).
struct PositionScale {
  float scale = 0;
  uint32_t period = 1;
  uint32_t ahead = 1; // Or 0.
};

/// One key for each pool, a run of `tokens` tokens: norm(the mean of the tokens' keys, weighted by
/// the softmax of gate x + bias), rotated as the pool's first token. runtime/format/
/// PoolInstructions.h defines it, and pools that overlap.
struct PoolDescription {
  uint32_t tokens = 0;
  bool overlapping = false;
  std::optional<LinearDescription> gate; // With a bias; absent: the mean without weights.
  WeightSource bias;                     // [tokens * rows of the gate], a vector.
  std::optional<NormDescription> norm;
};

/// The indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556, section 2.1), which chooses
/// `most` of the positions up to a token's own, those with the largest scores:
///  - score of position s = sum over heads h of (weights x)[h] * max(0, q[h] . k(s));
///  - q = rope(query r), of the latent r that the attention's queries come from;
///  - k = rope(keyNorm(key x)), one for all heads.
/// With a pool it chooses `most` pools, by their keys.
struct IndexerDescription {
  uint32_t heads = 0;
  uint32_t most = 0;
  LinearDescription query, key;
  std::optional<LinearDescription> weights; // Absent: of all heads the same.
  std::optional<NormDescription> queryNorm, keyNorm;
  std::optional<PoolDescription> pool;
  std::optional<uint32_t> rope; // Rotates the elements of a head from firstRotated on.
  uint32_t firstRotated = 0;
};

/// A bias of attention scores by the relative position of the key (PositionBuckets.h), as T5 has
/// it.
struct PositionBiasDescription {
  WeightSource table; // A vector: [buckets, heads], all elements in their order.
  uint32_t buckets = 0, maxDistance = 0;
};

/// Grouped-query attention; query head h reads key/value head h / (heads / kvHeads).
struct AttentionDescription {
  uint32_t heads = 0;
  uint32_t kvHeads = 0;
  uint32_t headDim = 0;      // Width of queries and keys.
  uint32_t valueHeadDim = 0; // Width of values.
  float scale = 0;           // Factor on the scores, usually headDim^-0.5.
  uint32_t window = 0;       // Query i sees keys j with i - window < j <= i; 0: all j <= i.
  bool chunked = false;      // Instead, those j <= i with floor(j / window) = floor(i / window).
  /// Not kEarlier: there is no window, and there are no sinks.
  moert::AttendedRange range = moert::AttendedRange::kEarlier;
  std::optional<uint32_t> positionBias; // Index into ModelDescription::positionBiases; the same.
  LinearDescription query, key, value, output;
  /// There is no matrix `value`: values are the products of `key`, before norms and rotation.
  bool valuesAreKeys = false;
  /// Epsilon of an RMS norm of each head's values, without weights. Required if values are keys.
  std::optional<float> valueNorm;
  /// A weight of headDim normalizes each head, a longer one all heads together.
  std::optional<NormDescription> queryNorm, keyNorm;
  bool normsAfterRope = false;
  std::optional<float> plainNormEpsilon; // RMS norm of each head without a weight, after the rope.
  std::optional<PositionScale> queryScale; // After everything else.
  std::optional<float> clip;               // q, k, v clamped to +-clip, after the norms.
  /// The result is multiplied by sigmoid(gate x) or its softplus. Of a softplus, a gate of `heads`
  /// rows has a factor for each head.
  std::optional<LinearDescription> gate;
  bool gatesBySoftplus = false;
  std::optional<uint32_t> rope; // Index into ModelDescription::ropes.
  /// [heads]: a score of each head without a value, unscaled, in the softmax's denominator only.
  std::optional<WeightSource> sinks;
  std::optional<IndexerDescription> indexer; // The positions that are attended to; absent: all.
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1), absorbed: a token
/// keeps its latent and a key that all heads share, and no head's own keys and values. For head h,
///  - [rest | shared part] = query of head h: of x, or of queryNorm(queryDown x) if these exist;
///  - score = scale * (rope(shared part) . rope(key) + (keyUp[h] * rest) . latent);
///  - result = valueUp[h] * (the latents, weighted by the softmax of the scores), with a gate times
///    sigmoid(gate x)[h].
struct LatentAttentionDescription {
  uint32_t heads = 0;
  float scale = 0;
  std::optional<LinearDescription> queryDown;
  std::optional<NormDescription> queryNorm;
  LinearDescription query;     // [heads * (rest + shared part), H or the rows of queryDown].
  LinearDescription key;       // [shared part, H]; 0 rows: none.
  LinearDescription latent;    // [rank, H].
  NormDescription latentNorm;  // One over the whole latent.
  WeightSource keyUp, valueUp; // [heads * rank, rest] and [heads * value width, rank].
  std::optional<LinearDescription> gate; // [heads, H].
  std::optional<PositionScale> queryScale;
  LinearDescription output;
  std::optional<uint32_t> rope; // Rotates the shared part; index into ModelDescription::ropes.
  /// The positions that are attended to; requires queryDown. Absent: all, or those that the last
  /// indexer of an earlier layer chose.
  std::optional<IndexerDescription> indexer;
  bool sharesChoice = false;
};

/// The attention of DeepSeek-V4 (transformers, models/deepseek_v4), whose one key per token is its
/// value too, k = rope(keyNorm(key x)). Queries are rope(each head of query r, normalized), with r
/// = queryNorm(queryDown x). A token sees the last `window` keys and, with a pool, the keys of
/// pools, of rows `pooled`, that an indexer chooses, or all. The result is rotated back, then
/// output(each group of heads through its part of outputDown).
struct CompressedAttentionDescription {
  uint32_t heads = 0, headDim = 0, window = 0;
  float scale = 0, epsilon = 0; // Epsilon of the norm of queries.
  LinearDescription queryDown, query, key;
  NormDescription queryNorm, keyNorm;
  WeightSource sinks; // [heads].
  uint32_t groups = 1;
  WeightSource outputDown; // [groups * rank, elements of a group].
  LinearDescription output;
  uint32_t rope = 0, firstRotated = 0; // Rotates the elements of a head from there on.
  std::optional<PoolDescription> pool;
  LinearDescription pooled; // Used with a pool.
  std::optional<IndexerDescription> indexer;
};

/// A product of the input whose results pass through a causal convolution along the tokens: taps
/// [rows of the product, taps], the last of which is that of the token itself.
struct ConvolvedDescription {
  LinearDescription linear;
  WeightSource taps;
  std::optional<WeightSource> tapsBias; // Added after the convolution.
};

/// The gated delta rule (Yang et al. 2024, arXiv 2412.06464) with convolutions before it. Query,
/// key and value pass through silu(convolution); per key head, query and key are divided by their
/// lengths, sqrt(sum of squares + lengthEpsilon), and the query by sqrt(key width) too. Head h,
/// with key head h / (heads / keyHeads), forgets by exp(-exp(logRate) * softplus(decay x +
/// decayBias)), or with a decayBound by exp(decayBound * sigmoid(exp(logRate) * (decay x +
/// decayBias))), and writes with sigmoid(write x). result = output(outputNorm(memory read) *
/// silu(gate x)), the norm per head; sigmoid(gate x) if `gatesBySigmoid`. In Kimi delta attention
/// (Kimi Linear, arXiv 2510.26692) each element of a head's keys has its own decay.
struct DeltaNetDescription {
  uint32_t keyHeads = 0;
  uint32_t heads = 0;
  ConvolvedDescription query, key, value;
  std::optional<LinearDescription> gateDown, decayDown; // Gate and decay are products of these.
  LinearDescription gate, decay, write; // [heads * value width, H], [decays, H], [heads, H].
  WeightSource logRate, decayBias;      // Vectors [heads], [decays]: heads, or heads * key width.
  std::optional<float> decayBound;      // Below 0.
  bool gatesBySigmoid = false;
  float lengthEpsilon = 0;
  NormDescription outputNorm; // [value width].
  LinearDescription output;
};

/// The state space of Mamba-2 (Dao and Gu 2024, arXiv 2405.21060), with key and query for B and C
/// of the paper. Value, key and query pass through silu(convolution). Head h, with key head h /
/// (heads / keyHeads), advances by softplus(step x + stepBias) with the rate exp(logRate) and adds
/// skip * value to what it reads. result = output(outputNorm(memory read * silu(gate x))), the norm
/// over the heads of each key head.
struct StateSpaceDescription {
  uint32_t keyHeads = 0;
  uint32_t heads = 0;
  ConvolvedDescription value, key, query;
  LinearDescription gate, step;         // [heads * value width, H], [heads, H].
  WeightSource stepBias, logRate, skip; // Vectors [heads].
  NormDescription outputNorm;           // [heads * value width].
  LinearDescription output;
};

/// The selective scan of Mamba-1 (Gu and Dao 2023, arXiv 2312.00752) as Jamba has it. Value passes
/// through silu(convolution) and becomes v; key, query and stepDown are products of v, each with
/// its norm. Each element of v advances by softplus(step(stepNorm(stepDown v)) + stepBias) with its
/// rates exp(logRate). result = output((memory read + skip * v) * silu(gate x)).
struct SelectiveScanDescription {
  ConvolvedDescription value;
  LinearDescription gate, stepDown, key, query, step;
  NormDescription stepNorm, keyNorm, queryNorm;
  WeightSource logRate;        // [value width, key width].
  WeightSource stepBias, skip; // Vectors [value width].
  LinearDescription output;
};

/// output(after x * convolution(before x * value x)), products elementwise.
struct ShortConvolutionDescription {
  LinearDescription before, after, value;
  WeightSource taps; // [H, taps].
  LinearDescription output;
};

/// Attention in windows of a grid of side x side rows: moert::AttendWindowsInstruction.
struct WindowAttentionDescription {
  uint32_t heads = 0;
  uint32_t side = 0, window = 0, shift = 0;
  float scale = 0;
  LinearDescription query, key, value, output;
  WeightSource bias; // [heads * (2 * window - 1)^2], by a key's offset from the query.
};

/// Four neighbouring patches of a grid of side x side become one: linear(norm(their rows)).
struct MergeDescription {
  uint32_t side = 0;
  NormDescription norm;
  LinearDescription linear;
};

/// What a vision model has in place of an embedding: norm(linear(patch)) for each patch of an image
/// of side x side pixels.
struct PatchesDescription {
  uint32_t channels = 0, side = 0, patch = 0;
  LinearDescription linear;
  std::optional<NormDescription> norm;
};

/// down(activation(gate x, up x)); an activation without a gate has only the other two.
struct GluDescription {
  moert::GluActivation activation;
  LinearDescription gate, up, down;

  bool hasGate() const { return moert::hasGate(activation.kind); }
};

enum class RouterScoring {
  kSoftmaxThenTopK, // Softmax over all experts, then the k largest.
  kSigmoid,         // The sigmoid of each expert's score.
  kSparsemixer,     // Two experts, each weighed against those with nearly its score.
  kTopKThenSigmoid, // The k largest scores, then the sigmoid of each.
  kSqrtSoftplus,    // The square root of each score's softplus.
};

/// runtime/policy/Routing.h defines the choice, from linear(inputScale * inputNorm(x)), or with a
/// projection from linear(p / max(length of p, 1e-12)) for p = projection(inputScale *
/// inputNorm(x)).
struct RouterDescription {
  std::optional<NormDescription> inputNorm;
  float inputScale = 1;
  std::optional<LinearDescription> projection;
  LinearDescription linear;
  float scoreCap = 0; // Scores s become cap * tanh(s / cap); 0: none.
  RouterScoring scoring = RouterScoring::kSoftmaxThenTopK;
  uint32_t topK = 0;
  bool renormalize = false; // Divide the weights by their sum over the chosen experts.
  float weightScale = 1;
  std::optional<WeightSource> weightFactors; // [E]; each expert's factor of its weight.
  float tolerance = 0;                       // Sparsemixer's epsilon.
  std::optional<WeightSource> choiceBias; // [E]; added to the scores that choose, not to weights.
  /// [V, topK]: a token's experts are those of its row, whatever their scores.
  std::optional<WeightSource> expertsOfTokens;
  uint32_t groups = 1, keptGroups = 1;
  moert::GroupScore groupScore = moert::GroupScore::kLargest;
};

/// Expert capacity (runtime/policy/Capacity.h). Its weights come from a router that does not change
/// them.
struct CapacityDescription {
  moert::CapacityRule rule;
  bool passes = false; // A dropped choice adds its weight times the experts' input.
};

/// A network that is always active, in addition to the routed experts: outputNorm(network(inputNorm
/// x)); with a gate, its output is multiplied by sigmoid(gate x).
struct SharedExpertDescription {
  std::optional<NormDescription> inputNorm, outputNorm;
  GluDescription network;
  std::optional<LinearDescription> gate;
};

/// outputNorm(the chosen experts' sum for inputNorm x) + the shared network of x + tanh(bypass x).
/// The router, too, reads x.
struct MoeDescription {
  RouterDescription router;
  std::optional<CapacityDescription> capacity;
  std::optional<LinearDescription> bypass;
  std::optional<NormDescription> inputNorm, outputNorm;
  std::vector<GluDescription> experts; // All of the same shape and activation, without biases.
  /// Biases of all experts, one after the other: [E * outputs of the matrix].
  std::optional<WeightSource> gateBias, upBias, downBias;
  bool scalesInputs = false; // The router's weights multiply inputs, not outputs; topK is 1.
  std::optional<SharedExpertDescription> shared;
};

/// How a branch reads and changes streams as Qwen3.8 has it (transformers, models/qwen4_exp): with
/// n = norm(each stream) * weight, it reads the mean of the streams of n * sigmoid(up silu(down
/// n)), and 2 * sigmoid(inject n) times its result is added to each stream. Products are divided by
/// the number of streams, but for that of `up`.
struct StreamGateDescription {
  NormDescription norm; // [m * H] of m streams of H elements.
  LinearDescription down, up;
  std::optional<LinearDescription> inject; // [m, m * H]; absent before the head.
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
};

/// The weights of the streams around a branch (runtime/format/StreamInstructions.h,
/// stream_weights), from the products of all streams, normalized together.
struct StreamMixDescription {
  WeightSource products;    // [(2 + m) * m, m * H] of m streams, or [m, m * H] before the head.
  WeightSource scale, base; // Vectors.
};

/// Several residual streams in place of one: hyper-connections (Xie et al. 2025, arXiv 2512.24880).
/// At first all are the embedding.
struct StreamsDescription {
  uint32_t count = 0, iterations = 1;
  float epsilon = 0, normEpsilon = 0;
  std::optional<StreamMixDescription> head;      // Absent: the head reads the streams' mean,
  std::optional<StreamGateDescription> headGate; // or what this gives.
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
  AttentionDescription attention; // Not used if there is one of the next.
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
};

/// Positions that are added to the embedding.
struct PositionDescription {
  std::optional<WeightSource> table; // [positions, H]: learned. Otherwise
  uint32_t rope = 0, offset = 0;     // [sines | cosines] of this rope at position + offset.
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
};

} // namespace moec
