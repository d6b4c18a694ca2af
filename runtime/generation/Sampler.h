// Samples the next token from a row of logits. Deterministic to the bit: the same options, seed and
// logits give the same tokens on every machine.
//
//   1. temperature   weight of a token = expf32((logit - largest logit) / temperature)
//   2. top-k         keep the k largest logits
//   3. top-p         of these, in descending order, keep the fewest whose weights sum to at least
//                    p times the sum of all that top-k kept
//   4. sampling      u * sum of the kept weights, u from RandomStream; the first token whose
//   running
//                    sum exceeds it
//
// Equal logits are ordered by index, lowest first, which also decides a cut through a tie. Sums are
// in double: over all tokens by ascending index, over the tokens kept by a cut in descending order
// of logits. Temperature 0 is greedy: the lowest index among the largest logits, without a random
// number.
#pragma once

#include "runtime/base/RandomStream.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

struct SamplingOptions {
  float temperature = 0; // 0: greedy.
  uint32_t topK = 0;     // 0: all tokens.
  float topP = 1;        // In (0, 1]; 1: all tokens.
  uint64_t seed = 0;
};

/// The lowest index among the largest logits. Refuses NaN, +infinity, and rows of only -infinity.
Result<int32_t> greedyToken(std::span<const float> logits);

/// Owned by one sequence, used by one thread. create() allocates all memory.
class Sampler {
public:
  /// Refuses options outside their ranges and names them.
  static Result<Sampler> create(const SamplingOptions &options, uint32_t vocabularySize);

  /// Bytes that create() allocates.
  static uint64_t memoryBytes(const SamplingOptions &options, uint32_t vocabularySize);

  /// The next token. logits has vocabularySize elements.
  Result<int32_t> sample(std::span<const float> logits);

private:
  struct Candidate {
    float logit;
    int32_t token;
  };

  Sampler(const SamplingOptions &samplingOptions, uint32_t vocabularySize);
  static bool cuts(const SamplingOptions &options, uint32_t vocabularySize);
  static bool isBefore(const Candidate &a, const Candidate &b);
  float weightOf(float logit, float largest) const;
  int32_t drawFromAll(std::span<const float> logits, float largest);
  int32_t drawFromBest(std::span<const float> logits, float largest);

  SamplingOptions options;
  RandomStream random;
  std::vector<Candidate> candidates; // Empty if neither top-k nor top-p cuts.
};

} // namespace moert
