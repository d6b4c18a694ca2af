// What an emission would write, as a number: two that agree write the same file.
#pragma once

#include "compiler/emit/EmitPlan.h"
#include "compiler/import/Checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace moec {

/// Of everything that decides the file's bytes: the plan, the finished records, the tokenizer's
/// table, the checkpoint's headers and, for its weights, the sizes and times of its files. The
/// times are no part of any file; an artifact that is resumed from a checkpoint that was copied
/// again is refused for nothing, which costs less than half an artifact of another checkpoint's
/// weights.
uint64_t fingerprintOf(const EmitPlan &plan, const Checkpoint &checkpoint,
                       std::span<const std::byte> tokenizerTable);

} // namespace moec
