// What is remembered for the scores of published systems alone: SwapMoE's importances. Their values
// are in PublishedScores.cpp; the others are rows of EvictionScores.h.
#pragma once

#include "runtime/policy/EvictionScores.h"

#include <cstdint>

namespace moert {

/// The unit of importances.
constexpr uint64_t kImportanceOne = uint64_t(1) << 16;

/// What a token adds to the importance of an expert that the router chose for it, whether or not it
/// is in memory: |x| * G * |E| (SwapMoE, arXiv 2308.15030, equation 2), with the norm of the
/// router's input, the router's weight, and the norm of the expert's weights in units of
/// kFixedPointOne. In units of kImportanceOne, at most 4096; 0 for a NaN.
uint64_t tokenImportance(float inputNorm, float weight, uint32_t expertNorm);

/// How far a layer pass of some tokens (not 0) moves importances: each token takes 1/2^fadeShift of
/// what was there and adds its own, as if each of them added the same. fadeShift is 1 to
/// kMostFadeShift (ExchangeRule.h).
class ImportanceStep {
public:
  ImportanceStep(uint32_t tokens, uint32_t fadeShift);
  /// `added`: by all tokens together.
  void apply(ExpertHistory &history, uint64_t added) const;

private:
  uint32_t tokens;
  uint64_t kept, moved; // In units of kFixedPointOne: of what was there; of one token's part.
};

} // namespace moert
