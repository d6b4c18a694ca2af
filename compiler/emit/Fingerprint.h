// A number for the output of an emission: two emissions with the same number write the same file.
#pragma once

#include "compiler/emit/EmitPlan.h"
#include "compiler/import/Checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace moec {

/// Covers everything that determines the file's bytes: the plan, the finished records, the
/// tokenizer's table, the checkpoint's headers and, in place of its weights, the sizes and times of
/// its files. The times are in no file: after the checkpoint was copied again, an unfinished
/// artifact is refused without need. That costs less than an artifact with half of its weights from
/// another checkpoint. checkpoint: null where the plan's records hold all weights.
uint64_t fingerprintOf(const EmitPlan &plan, const Checkpoint *checkpoint,
                       std::span<const std::byte> tokenizerTable);

} // namespace moec
