#include "compiler/pipeline/IrContext.h"

#include "compiler/emit/CheckpointChat.h"
#include "compiler/ir/BuildModel.h"
#include "compiler/ir/MoeDialect.h"
#include "compiler/translate/BuildEmitPlan.h"
#include "compiler/translate/ImportArtifact.h"
#include "runtime/images/ClassNames.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

using namespace moert;

namespace moec {

// Only locations in a file help the user; operations built in memory have none.
static std::string textOf(const mlir::Diagnostic &diagnostic) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (auto place = llvm::dyn_cast<mlir::FileLineColLoc>(diagnostic.getLocation()))
    stream << place.getFilename().getValue() << ":" << place.getLine() << ":" << place.getColumn()
           << ": ";
  stream << diagnostic;
  for (const mlir::Diagnostic &note : diagnostic.getNotes())
    stream << "\n  " << note;
  return text;
}

IrContext::IrContext(const Session &session)
    : handler(&mlirContext, [this, say = session.say](mlir::Diagnostic &diagnostic) {
        std::string text = textOf(diagnostic);
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
          errors += (errors.empty() ? "" : "\n") + text;
        else if (say)
          say(text);
      }) {
  mlirContext.loadDialect<mlir::moe::MoeDialect>();
  // Some errors concern the whole module, which would be printed.
  mlirContext.printOpOnDiagnostic(false);
}

Status IrContext::failure(std::string_view step) const {
  return invalidInput(errors.empty() ? strCat(step, " failed without a reason") : errors);
}

Result<mlir::OwningOpRef<mlir::ModuleOp>>
buildModule(IrContext &ir, const ImportedModel &model,
            const std::function<void(std::string_view)> &warn) {
  const Checkpoint &checkpoint = model.checkpoint;
  auto module =
      buildModel(ir.context(), model.description, checkpoint.directory(),
                 [&](const WeightSource &source) { return checkpoint.storedType(source); });
  if (!module)
    return ir.failure("building the IR");
  if (std::optional<Chat> chat = readChat(checkpoint, warn))
    (*module)->setAttr(mlir::moe::kChatAttr, mlir::moe::ChatAttr::get(ir.context(), *chat));
  if (std::optional<SamplingDefaults> sampling = readSamplingDefaults(checkpoint, warn))
    (*module)->setAttr(mlir::moe::kSamplingAttr,
                       mlir::moe::SamplingDefaultsAttr::get(ir.context(), *sampling));
  if (!model.description.patches)
    return module;
  const auto names = readClassNames(checkpoint, model.description.vocabularySize, warn);
  if (!names.empty())
    (*module)->setAttr(mlir::moe::kClassNamesAttr,
                       mlir::StringAttr::get(ir.context(), classNamesText(names)));
  return module;
}

Result<mlir::OwningOpRef<mlir::ModuleOp>> buildModule(IrContext &ir, const StoredArtifact &stored) {
  auto module = importArtifact(ir.context(), stored.artifact(), stored.source().name());
  if (!module)
    return ir.failure("reading the artifact into IR").withContext(stored.source().name());
  return module;
}

Status runPasses(IrContext &ir, mlir::ModuleOp module, const mlir::moe::CompileOptions &options) {
  mlir::PassManager passes(ir.context());
  if (module->hasAttr(mlir::moe::kArtifactAttr))
    mlir::moe::addPlanPasses(passes, options);
  else
    mlir::moe::buildCompilePipeline(passes, options);
  if (mlir::succeeded(passes.run(module)))
    return {};
  // A diagnostic has no code.
  const std::atomic<bool> *stop = options.sources.watch.stop;
  if (stop && stop->load(std::memory_order_relaxed))
    return Status(StatusCode::kInterrupted, "interrupted");
  return ir.failure("planning");
}

Result<EmitPlan> planOf(IrContext &ir, mlir::ModuleOp module) {
  EmitPlan plan;
  if (mlir::failed(buildEmitPlan(module, plan)))
    return ir.failure("reading the plan");
  return plan;
}

std::string textOf(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

Result<std::unique_ptr<ModelIr>> ModelIr::create(const ImportedModel &model,
                                                 const Session &session) {
  std::unique_ptr<ModelIr> made(new ModelIr(session));
  MOERT_ASSIGN_OR_RETURN(made->imported, buildModule(made->ir, model, session.say));
  return made;
}

Result<EmitPlan> ModelIr::plan(const mlir::moe::Choices &choices,
                               const mlir::moe::CompileOptions &options, std::string *text) {
  ir.forgetErrors();
  const mlir::OwningOpRef<mlir::ModuleOp> module(imported->clone());
  mlir::moe::choose(*module, choices);
  MOERT_RETURN_IF_ERROR(runPasses(ir, *module, options));
  if (text)
    *text = textOf(*module);
  return planOf(ir, *module);
}

} // namespace moec
