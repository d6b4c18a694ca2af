// MLIR as the driver sees it: a context whose diagnostics become a Status, and the steps that need
// it.
#pragma once

#include "compiler/emit/EmitPlan.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/session/Session.h"
#include "passes/Pipeline.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <string_view>

namespace moec {

/// A context and what its diagnostics say. Errors become a Status, which is what everything around
/// MLIR speaks; warnings go to the session. Lives as long as the modules of its context; one
/// thread.
class IrContext {
public:
  explicit IrContext(const Session &session);

  mlir::MLIRContext *context() { return &mlirContext; }

  /// What failed, as it was diagnosed. What a module or a budget says is the user's to change.
  moert::Status failure(std::string_view step) const;

private:
  mlir::MLIRContext mlirContext{mlir::MLIRContext::Threading::DISABLED};
  std::string errors;
  mlir::ScopedDiagnosticHandler handler;
};

moert::Result<mlir::OwningOpRef<mlir::ModuleOp>> buildModule(IrContext &ir,
                                                             const ImportedModel &model);

moert::Status runPasses(IrContext &ir, mlir::ModuleOp module,
                        const mlir::moe::CompileOptions &options);

/// What a module says that all passes have gone over.
moert::Result<EmitPlan> planOf(IrContext &ir, mlir::ModuleOp module);

/// import's model with all decisions made, as emission takes it.
moert::Result<EmitPlan> planModel(const ImportedModel &model,
                                  const mlir::moe::CompileOptions &options, const Session &session);

} // namespace moec
