// The steps of sampling that change logits: biases, then penalties for tokens that the sequence
// has. Sampler.h states the arithmetic.
#pragma once

#include "runtime/text/sampling/SamplingOptions.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Owned by one sampler, used by its thread. The constructor allocates all memory.
class LogitAdjustments {
public:
  /// The options have passed check() for this vocabulary.
  LogitAdjustments(const SamplingOptions &options, uint32_t vocabularySize);

  /// Bytes that the constructor allocates.
  static uint64_t memoryBytes(const SamplingOptions &options, uint32_t vocabularySize);

  /// Forgets all tokens.
  void reset();
  /// Tokens of the prompt: only the repetition penalty counts them. One outside the vocabulary,
  /// which the engine refuses, is ignored.
  void addPrompt(std::span<const int32_t> tokens);
  void addGenerated(int32_t token);

  /// The adjusted row, valid until the next call; `logits` itself if nothing is adjusted.
  std::span<const float> apply(std::span<const float> logits);

private:
  struct Occurrences {
    uint32_t generated = 0;
    bool isInPrompt = false;
  };

  std::vector<TokenBias> biases;
  double repetition, presence, frequency;
  std::vector<Occurrences> occurrences; // Per token; empty without penalties.
  std::vector<float> adjusted;          // Empty if nothing is adjusted.
};

} // namespace moert
