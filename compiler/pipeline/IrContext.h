// A small interface to MLIR: a context that turns diagnostics into a Status, and the steps that
// need MLIR.
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

/// A context and its diagnostics. Errors become a Status, as everywhere outside MLIR; warnings go
/// to the session. Must outlive the modules of its context; for one thread.
class IrContext {
public:
  explicit IrContext(const Session &session);

  mlir::MLIRContext *context() { return &mlirContext; }

  /// The collected diagnostics as invalid input, since the user can change a module or a budget.
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

/// The plan in a module that all passes have processed.
moert::Result<EmitPlan> planOf(IrContext &ir, mlir::ModuleOp module);

/// An imported model with all decisions made, ready for emission.
moert::Result<EmitPlan> planModel(const ImportedModel &model,
                                  const mlir::moe::CompileOptions &options, const Session &session);

} // namespace moec
