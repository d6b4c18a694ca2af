// Breakdown of a step's time by the parts of Instruction.h. docs/run-profile.md defines each part.
#pragma once

#include "runtime/format/Artifact.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace moert {

constexpr size_t kStepParts = 13;
using PartNumbers = std::array<uint64_t, kStepParts>; // By StepPart.

/// Names in a profile, by StepPart.
constexpr std::array<std::string_view, kStepParts> kPartNames = {
    "embedding", "norms",    "quantizing", "attention_products", "attention",
    "router",    "dense",    "experts",    "prefetches",         "sums",
    "head",      "requests", "checksums"};

/// Resident bytes that one token needs: all of a matrix, one row of the embedding. Without predict
/// instructions, which a plan may leave out.
PartNumbers weightBytesOf(const Program &program, const std::vector<ResidentWeight> &residents);

/// The part of `ns` for one of several products computed together: proportional to its weight bytes
/// among those that are left. All bytes that are left get all of the time, so that rounding loses
/// no nanosecond.
uint64_t partOfTime(uint64_t ns, uint64_t bytes, uint64_t bytesLeft);

} // namespace moert
