// A small interface to MLIR: a context that turns diagnostics into a Status, and the steps that
// need MLIR.
#pragma once

#include "compiler/emit/StoredArtifact.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/ir/Choices.h"
#include "compiler/session/Session.h"
#include "passes/Pipeline.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <memory>
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
  /// Errors so far concern an earlier step.
  void forgetErrors() { errors.clear(); }

private:
  mlir::MLIRContext mlirContext{mlir::MLIRContext::Threading::DISABLED};
  std::string errors;
  mlir::ScopedDiagnosticHandler handler;
};

/// warn: for what the checkpoint has for conversations (CheckpointChat.h); may be empty.
moert::Result<mlir::OwningOpRef<mlir::ModuleOp>>
buildModule(IrContext &ir, const ImportedModel &model,
            const std::function<void(std::string_view)> &warn);

/// The module that emits the artifact, planned by all passes.
moert::Result<mlir::OwningOpRef<mlir::ModuleOp>> buildModule(IrContext &ir,
                                                             const StoredArtifact &stored);

/// All passes, or those that plan a module of an artifact.
moert::Status runPasses(IrContext &ir, mlir::ModuleOp module,
                        const mlir::moe::CompileOptions &options);

/// The plan in a module that all passes have processed.
moert::Result<EmitPlan> planOf(IrContext &ir, mlir::ModuleOp module);

/// The module as text, as emitFromFile() reads it.
std::string textOf(mlir::ModuleOp module);

/// A model's IR, imported once and planned as often as there are choices. Borrows the session. One
/// thread.
class ModelIr {
public:
  static moert::Result<std::unique_ptr<ModelIr>> create(const ImportedModel &model,
                                                        const Session &session);

  /// All decisions, ready for emission. With `text`, also the planned module.
  moert::Result<EmitPlan> plan(const mlir::moe::Choices &choices,
                               const mlir::moe::CompileOptions &options,
                               std::string *text = nullptr);

private:
  explicit ModelIr(const Session &session) : ir(session) {}

  IrContext ir;
  mlir::OwningOpRef<mlir::ModuleOp> imported;
};

} // namespace moec
