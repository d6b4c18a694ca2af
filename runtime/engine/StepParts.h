// Breakdown of a step's time: by kind of instruction, products by their purpose, and the work of
// the cache beside computing. docs/run-profile.md defines each part.
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
  kPrefetches,
  kSums,
  kHead,
  kRequests,
  kChecksums,
};

constexpr size_t kStepParts = 13;
using PartNumbers = std::array<uint64_t, kStepParts>; // By StepPart.

/// Names in a profile, by StepPart.
constexpr std::array<std::string_view, kStepParts> kPartNames = {
    "embedding", "norms",    "quantizing", "attention_products", "attention",
    "router",    "dense",    "experts",    "prefetches",         "sums",
    "head",      "requests", "checksums"};

/// The part of each instruction. A product belongs to the router if a route reads its result; to
/// attention if it precedes an attention of its layer or is the first product after one; to the
/// dense network otherwise. Models that compute both side by side would count the latter as
/// attention.
std::vector<StepPart> partsOf(const Program &program);

/// Resident bytes that one token needs: all of a matrix, one row of the embedding. Without predict
/// instructions, which a plan may leave out.
PartNumbers weightBytesOf(const Program &program, const std::vector<ResidentWeight> &residents);

/// The part of `ns` for one of several products computed together: proportional to its weight bytes
/// among those that are left. All bytes that are left get all of the time, so that rounding loses
/// no nanosecond.
uint64_t partOfTime(uint64_t ns, uint64_t bytes, uint64_t bytesLeft);

} // namespace moert
