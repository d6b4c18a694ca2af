// Builds the IR from a model's description: the module that `moec import` prints and that every
// pass and the emitter start from. It refers to weights in the checkpoint and holds none.
#pragma once

#include "compiler/import/ModelDescription.h"
#include "compiler/import/StoredType.h"
#include "runtime/base/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace moec {

/// How the checkpoint stores a weight (Checkpoint::storedType).
using StoredTypeOf = llvm::function_ref<moert::Result<StoredType>(const WeightSource &)>;

/// Builds the functions of the model (@decode and @prefill, and @encode if it has an encoder) and
/// the symbols that they use; loads the
/// dialects that it needs. Parts that the IR cannot express (experts with biases) are refused with
/// a diagnostic, and the result is null.
mlir::OwningOpRef<mlir::ModuleOp> buildModel(mlir::MLIRContext *context,
                                             const ModelDescription &model,
                                             llvm::StringRef checkpointDirectory,
                                             StoredTypeOf storedTypeOf);

} // namespace moec
