// Scores of rows of logits in double, the same on every machine: with the project's own exp and log
// (DeterministicMath.h), and sums in a fixed order.
//
// Sums over a vocabulary are 8 partial sums, element i into i mod 8, then the tree 4-2-1; vectors
// of any width give the same bits.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>

namespace moert {

/// How well one row of an artifact, and of its reference, predicts the next token.
struct RowScore {
  double lossNats = 0;          // -log p(target)
  double referenceLossNats = 0; // The same for the reference.
  double klNats = 0;            // KL(reference || artifact)
  bool agrees = false;          // Both have the same most likely token (lowest index).
};

/// reference may be empty: then only lossNats is set. Refuses logits that are not finite.
Result<RowScore> scoreRow(std::span<const float> logits, std::span<const float> reference,
                          int32_t target);

} // namespace moert
