// A module as the artifact that it will become, before it has plans: what planning
// takes its facts from, and the memory that a run of it will need. The runtime repeats the account
// of the memory with exact numbers when it loads the artifact.
#pragma once

#include "compiler/ir/MoeDialect.h"
#include "runtime/format/Artifact.h"
#include "runtime/memory/MemoryBudget.h"

namespace mlir::moe {

/// The laid out weights and the programs; no plans and no page size. Needs the formats of
/// assign-bits and the offsets of bufferize. Errors are emitted at the op, here and below.
FailureOr<moert::Artifact> describe(ModuleOp module);

/// The artifact is the described module with a page size.
FailureOr<moert::ModelFootprint> footprintOf(ModuleOp module, const moert::Artifact &artifact);

/// Whether the artifact that the module was read from has activation-path tables.
bool hasPaths(ModuleOp module);

} // namespace mlir::moe
