// From the description of an artifact to the module that emits it: buildEmitPlan() in reverse. The
// module refers to the weights, the tokenizer's table, the activation-path tables and the trace of
// the file, and holds none of them.
#pragma once

#include "runtime/format/Artifact.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace moec {

/// The artifact was read from `path`. Loads the dialects that it needs. Null after an error, which
/// is emitted.
mlir::OwningOpRef<mlir::ModuleOp>
importArtifact(mlir::MLIRContext *context, const moert::Artifact &artifact, llvm::StringRef path);

} // namespace moec
