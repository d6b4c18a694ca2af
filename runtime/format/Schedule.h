// The schedule: a straight list of instructions for one step of a batch of tokens. The compiler's
// last pass produces it, the artifact carries it, the engine executes it; nothing else determines
// what the model computes. A model is a list of named programs ("decode", "prefill").
//
// Memory. A program's buffers live in one arena. Everything is counted per token: with a batch of
// at most T tokens, buffer b occupies [offset * T, (offset + bytesPerToken) * T) of the arena, row
// after row, so that one plan serves every chunk size. Buffers whose lifetimes do not overlap may
// share bytes; plan-memory assigns the offsets, and the reader checks every access against the
// buffer's size.
//
// Notation: [w] is one row of w elements per token.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace moert {

constexpr int32_t kNone = -1; // An optional buffer or weight that is absent.

enum class BufferKind : uint8_t {
  kF32 = 0,
  kI32 = 1,
  kQuantized = 2, // int8 codes, then f32 scales, then i32 sums of codes, per activation group.
};

struct Buffer {
  BufferKind kind = BufferKind::kF32;
  uint32_t width = 0;         // Elements of a row.
  uint32_t group = 0;         // Activation group of kQuantized, 0 otherwise.
  uint64_t offset = 0;        // Bytes per token, a multiple of kBufferAlignment.
  uint64_t bytesPerToken = 0; // bufferBytesPerToken(kind, width, group).
  friend bool operator==(const Buffer &, const Buffer &) = default;
};

constexpr uint64_t kBufferAlignment = 64;

/// Bytes of one row, rounded up to kBufferAlignment. A quantized row of width w and group g has
/// p = w rounded up to g codes, then p/g scales, then p/g sums, each part from a multiple of 64
/// bytes.
uint64_t bufferBytesPerToken(BufferKind kind, uint32_t width, uint32_t group);

/// dst[h] = scale * row `token` of weight.
struct EmbedInstruction {
  int32_t dst, weight;
  float scale;
  friend bool operator==(const EmbedInstruction &, const EmbedInstruction &) = default;
};

enum class NormKind : uint8_t { kRms = 0, kLayer = 1 };

/// Each run of `segment` elements of src is normalized separately (per head, or the whole row) and
/// multiplied by weight[segment], plus bias[segment]. dst may be src.
struct NormInstruction {
  int32_t src, dst, weight, bias;
  NormKind kind;
  float epsilon;
  uint32_t segment;
  friend bool operator==(const NormInstruction &, const NormInstruction &) = default;
};

/// dst = src as int8 with a scale per group (docs/numbers.md).
struct QuantizeInstruction {
  int32_t src, dst;
  friend bool operator==(const QuantizeInstruction &, const QuantizeInstruction &) = default;
};

/// dst[rows] = weight * src + bias. src is kQuantized where the weight is, kF32 where it is float.
struct LinearInstruction {
  int32_t src, dst, weight, bias;
  friend bool operator==(const LinearInstruction &, const LinearInstruction &) = default;
};

/// Rotates `heads` heads of `headDim` elements in place: the first 2 * frequencies elements of
/// each.
struct RopeInstruction {
  int32_t buffer;
  uint32_t heads, headDim, rope;
  friend bool operator==(const RopeInstruction &, const RopeInstruction &) = default;
};

/// Writes the keys and values of the batch into a slot of the KV cache at the tokens' positions.
struct StoreKvInstruction {
  int32_t key, value;
  uint32_t slot;
  friend bool operator==(const StoreKvInstruction &, const StoreKvInstruction &) = default;
};

/// dst[heads * valueHeadDim] = attention of query over the slot's positions up to the token's own;
/// over the last `window` of them if that is not 0.
struct AttendInstruction {
  int32_t query, dst;
  uint32_t slot, heads, window;
  float scale;
  friend bool operator==(const AttendInstruction &, const AttendInstruction &) = default;
};

enum class Activation : uint8_t { kSilu = 0 };

/// dst = activation(gate) * up. dst may be gate or up.
struct ActivateInstruction {
  int32_t gate, up, dst;
  Activation activation;
  friend bool operator==(const ActivateInstruction &, const ActivateInstruction &) = default;
};

enum class RouterScoring : uint8_t { kSoftmaxThenTopK = 0 };

/// experts[topK] and weights[topK], best first, from scores[experts of the layer]. A program routes
/// the MoE layers from the first on, in their order.
struct RouteInstruction {
  int32_t scores, experts, weights;
  uint32_t moeLayer;
  RouterScoring scoring;
  uint32_t topK;
  bool renormalize;
  float weightScale;
  friend bool operator==(const RouteInstruction &, const RouteInstruction &) = default;
};

/// dst[h] = sum over ranks of weights[rank] * expert(src), ranks ascending. Reads each expert that
/// the batch routes to once. `gathered` has rows [h] of the kind that the experts' first matrices
/// take. src has that kind too, or floats, which the format allows and the engine does not execute.
/// gate and up are [expert width]; hidden is the quantized input of the last matrix, kNone where
/// that matrix is float; ranks is [topK * h], h rounded up to kRankRowElements. dst serves as
/// scratch meanwhile and is none of the others.
constexpr uint32_t kRankRowElements = 16;
struct ExpertsInstruction {
  int32_t src, experts, weights, dst;
  uint32_t moeLayer;
  int32_t gathered, gate, up, hidden, ranks;
  friend bool operator==(const ExpertsInstruction &, const ExpertsInstruction &) = default;
};

/// Predicts the experts of a later MoE layer, if the plan has a rule for that layer with this
/// `ahead` (Plan::prefetches), and gives the prefetch candidates to the cache; without such a rule
/// it does nothing. No token depends on it. Cross-layer gate: scores[experts of moeLayer] = weight
/// * src + bias, the later layer's router applied to the router input of the current layer.
/// Activation-path table: the experts chosen by the two layers before decide, and neither src nor
/// weight is used. The weight is a float matrix; scores is scratch. Follows the route of the
/// current layer.
struct PredictInstruction {
  int32_t src, scores, weight, bias;
  uint32_t moeLayer; // The predicted layer.
  uint32_t ahead;    // MoE layers from here to there: 1 to kMostAhead.
  friend bool operator==(const PredictInstruction &, const PredictInstruction &) = default;
};

/// dst = a + scale * b. dst may be a or b.
struct AddInstruction {
  int32_t a, b, dst;
  float scale;
  friend bool operator==(const AddInstruction &, const AddInstruction &) = default;
};

/// dst = sigmoid(gate[1]) * src. dst may be src.
struct GateRowsInstruction {
  int32_t src, gate, dst;
  friend bool operator==(const GateRowsInstruction &, const GateRowsInstruction &) = default;
};

/// Logits of the tokens whose logits are requested: scale * (weight * src + bias). Ends the
/// program.
struct HeadInstruction {
  int32_t src, weight, bias;
  float scale;
  friend bool operator==(const HeadInstruction &, const HeadInstruction &) = default;
};

using Instruction =
    std::variant<EmbedInstruction, NormInstruction, QuantizeInstruction, LinearInstruction,
                 RopeInstruction, StoreKvInstruction, AttendInstruction, ActivateInstruction,
                 RouteInstruction, ExpertsInstruction, PredictInstruction, AddInstruction,
                 GateRowsInstruction, HeadInstruction>;

struct Program {
  std::string name; // "decode" or "prefill"
  uint64_t arenaBytesPerToken = 0;
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  std::vector<int32_t> layers; // Parallel to instructions: the model's layer, kNone outside any.
  friend bool operator==(const Program &, const Program &) = default;
};

} // namespace moert
