// What mixes the tokens of a sequence in a layer, as data: attention in its kinds, recurrences and
// convolutions.
#pragma once

#include "compiler/import/WeightSource.h"
#include "runtime/format/Instruction.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace moec {

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

  static void parts(auto &self, const auto &visit) {
    if (self.gate)
      visit(self.gate, self.bias);
    visit(self.norm);
  }
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

  static void parts(auto &self, const auto &visit) {
    visit(self.query, self.key, self.weights, self.queryNorm, self.keyNorm, self.pool);
  }
};

/// A bias of attention scores by the relative position of the key (PositionBuckets.h), as T5 has
/// it.
struct PositionBiasDescription {
  WeightSource table; // A vector: [buckets, heads], all elements in their order.
  uint32_t buckets = 0, maxDistance = 0;

  static void parts(auto &self, const auto &visit) { visit(self.table); }
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

  static void parts(auto &self, const auto &visit) {
    visit(self.query, self.key);
    if (!self.valuesAreKeys)
      visit(self.value);
    visit(self.queryNorm, self.keyNorm, self.sinks, self.indexer, self.gate, self.output);
  }
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

  static void parts(auto &self, const auto &visit) {
    visit(self.indexer, self.queryDown, self.queryNorm, self.query, self.key, self.latent,
          self.latentNorm, self.keyUp, self.valueUp, self.gate, self.output);
  }
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

  static void parts(auto &self, const auto &visit) {
    visit(self.queryDown, self.query, self.key, self.output, self.queryNorm, self.keyNorm,
          self.sinks, self.outputDown, self.indexer);
    if (self.pool)
      visit(self.pool, self.pooled);
  }
};

/// A product of the input whose results pass through a causal convolution along the tokens: taps
/// [rows of the product, taps], the last of which is that of the token itself.
struct ConvolvedDescription {
  LinearDescription linear;
  WeightSource taps;
  std::optional<WeightSource> tapsBias; // Added after the convolution.

  static void parts(auto &self, const auto &visit) { visit(self.linear, self.taps, self.tapsBias); }
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

  static void parts(auto &self, const auto &visit) {
    visit(self.query, self.key, self.value, self.gateDown, self.decayDown, self.gate, self.decay,
          self.write, self.output, self.logRate, self.decayBias, self.outputNorm);
  }
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

  static void parts(auto &self, const auto &visit) {
    visit(self.value, self.key, self.query, self.gate, self.step, self.output, self.stepBias,
          self.logRate, self.skip, self.outputNorm);
  }
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

  static void parts(auto &self, const auto &visit) {
    visit(self.value, self.gate, self.stepDown, self.key, self.query, self.step, self.output,
          self.stepNorm, self.keyNorm, self.queryNorm, self.logRate, self.stepBias, self.skip);
  }
};

/// output(after x * convolution(before x * value x)), products elementwise.
struct ShortConvolutionDescription {
  LinearDescription before, after, value;
  WeightSource taps; // [H, taps].
  LinearDescription output;

  static void parts(auto &self, const auto &visit) {
    visit(self.before, self.after, self.value, self.output, self.taps);
  }
};

/// Attention in windows of a grid of side x side rows: moert::AttendWindowsInstruction.
struct WindowAttentionDescription {
  uint32_t heads = 0;
  uint32_t side = 0, window = 0, shift = 0;
  float scale = 0;
  LinearDescription query, key, value, output;
  WeightSource bias; // [heads * (2 * window - 1)^2], by a key's offset from the query.

  static void parts(auto &self, const auto &visit) {
    visit(self.query, self.key, self.value, self.output, self.bias);
  }
};

} // namespace moec
