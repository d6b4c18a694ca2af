// From a model's description to its IR: the module that `moec import` prints and that every pass
// and the emitter start from. It holds no weights, only where they come from.
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

/// The functions @decode and @prefill of the model and the symbols that they use; loads the
/// dialects that it needs. What the IR cannot say (experts with biases) is refused with a
/// diagnostic, and the result is null.
mlir::OwningOpRef<mlir::ModuleOp> buildModel(mlir::MLIRContext *context,
                                             const ModelDescription &model,
                                             llvm::StringRef checkpointDirectory,
                                             StoredTypeOf storedTypeOf);

} // namespace moec
