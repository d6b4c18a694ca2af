// What the time of a step is told by: kinds of instructions, where a product is told by what it is
// for, and what the cache does beside computing. docs/run-profile.md says what each part is.
#pragma once

#include "runtime/format/Artifact.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace moert {

enum class StepPart : uint8_t {
  kEmbedding,
  kNorms,
  kQuantizing,
  kAttentionProducts,
  kAttention,
  kRouter,
  kDense,
  kExperts,
  kGuesses,
  kSums,
  kHead,
  kRequests,
  kChecksums,
};

constexpr size_t kStepParts = 13;
using PartNumbers = std::array<uint64_t, kStepParts>; // By StepPart.

/// As a profile spells them, by StepPart.
constexpr std::array<std::string_view, kStepParts> kPartNames = {
    "embedding", "norms",  "quantizing", "attention_products",
    "attention", "router", "dense",      "experts",
    "guesses",   "sums",   "head",       "requests",
    "checksums"};

/// Of each instruction. A product is the router's if a route takes its result; attention's if it
/// stands before an attention of its layer or is the first one behind it; of the dense network
/// otherwise. So models that compute both side by side would have the latter told as attention's.
std::vector<StepPart> partsOf(const Program &program);

/// Resident bytes that one token needs: all of a matrix, one row of the embedding. Without those of
/// guesses, which a plan may leave out.
PartNumbers weightBytesOf(const Program &program, const std::vector<ResidentWeight> &residents);

/// Of the time of products that are computed together, that of the one with so many of the weight
/// bytes that are left: all of the time for all of them, so that no nanosecond is lost.
uint64_t shareOfTime(uint64_t ns, uint64_t bytes, uint64_t bytesLeft);

} // namespace moert
