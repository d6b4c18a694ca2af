// Expert capacity: of the tokens that one call of the model routes, an expert takes a bounded
// number and drops the others. A model's output depends on it, so it is part of what the model
// computes, unlike the rules for misses.
#pragma once

#include <cstdint>
#include <span>

namespace moert {

/// How many tokens of a call an expert takes.
enum class CapacityKind : uint8_t {
  kTokens = 0,        // `capacity`.
  kTokenFraction = 1, // ceil(capacity * tokens of the call).
  kEvenSplit = 2,     // topK * floor(capacity * ceil(tokens of the call / experts)).
};

struct CapacityRule {
  CapacityKind kind = CapacityKind::kTokens;
  float capacity = 0; // Above 0.
  /// Tokens take their places by their largest weight, ties by their order; otherwise in their
  /// order.
  bool byPriority = false;
  /// A token's weights are divided by their sum, before choices are dropped or over those that are
  /// kept; at most one of both.
  bool normalizesBefore = false, normalizesAfter = false;
  float weightScale = 1; // Multiplied into the weights, last of all.

  bool operator==(const CapacityRule &) const = default;
};

/// The choices of a call: token t has experts[t * stride + rank] and weights[t * stride + rank] for
/// topK ranks, best first; passed[t * passedStride] is one number.
struct RoutedTokens {
  uint32_t tokens = 0, topK = 0;
  int32_t *experts = nullptr;
  float *weights = nullptr;
  float *passed = nullptr;
  uint64_t stride = 0, passedStride = 0;
};

/// The products and quotients are of f32, rounded to the nearest.
uint32_t capacityOf(const CapacityRule &rule, uint32_t tokens, uint32_t topK, uint32_t experts);

/// Gives each choice the next place of its expert: the first choices of all tokens, then the second
/// ones, and so on; dropped choices count too. A choice whose place is not below the capacity
/// becomes the expert -1 with weight 0. passed: the sum of the weights of a token's dropped
/// choices, scaled, for models in which a dropped token passes through. Memory: `places` for the
/// layer's experts, `order` for the tokens.
void applyCapacity(const CapacityRule &rule, const RoutedTokens &routed, std::span<uint32_t> places,
                   uint32_t *order);

} // namespace moert
