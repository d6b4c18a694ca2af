// The passes of Passes.td, which documents them, and the values of their options.
#pragma once

#include "mlir/Pass/Pass.h"

#include <cstdint>
#include <string>

namespace mlir::moe {

/// Width of the experts.
enum class ExpertBits { kSource, k8, k6, k5, k4, k3, k2 };
/// Width of the resident matrices; kSame: the head uses the width of the others.
enum class ResidentBits { kSource, k16, k8, k4, kSame };
enum class KvBits { kAuto, k32, k16, k8 };

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace mlir::moe
