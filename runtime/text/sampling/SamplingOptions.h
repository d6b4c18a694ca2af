// How the next token is chosen from a row of logits, as plain data. Sampler.h executes it and lists
// the steps in their order.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace moert {

/// Added to the logit of one token.
struct TokenBias {
  int32_t token = 0;
  float bias = 0; // From -100 to 100, or -infinity: the token is never chosen.
};

struct SamplingOptions {
  float temperature = 0; // 0: greedy.
  uint32_t topK = 0;     // 0: all tokens.
  float topP = 1;        // In (0, 1]; 1: all tokens.
  uint64_t seed = 0;
  float minP = 0;              // In [0, 1]; 0: all tokens.
  float repetitionPenalty = 1; // From 0.01 to 100; 1: none.
  float presencePenalty = 0;   // From -100 to 100; 0: none.
  float frequencyPenalty = 0;  // From -100 to 100; 0: none.
  std::vector<TokenBias> logitBias = {};

  bool hasPenalties() const {
    return repetitionPenalty != 1 || presencePenalty != 0 || frequencyPenalty != 0;
  }
};

/// Refuses a number outside its range, and a bias for a token that is outside the vocabulary or has
/// one already; the message names the option.
Status check(const SamplingOptions &options, uint32_t vocabularySize);

/// How a checkpoint's authors have it sampled: greedily if they state so, or state nothing; else
/// with their numbers, at temperature 1 if they state none.
SamplingOptions samplingOf(const std::optional<SamplingDefaults> &defaults);

} // namespace moert
