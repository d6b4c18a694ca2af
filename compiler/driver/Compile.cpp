#include "compiler/driver/Compile.h"

#include "compiler/emit/BuildEmitPlan.h"
#include "compiler/import/Checkpoint.h"
#include "compiler/ir/BuildModel.h"
#include "compiler/ir/MoeDialect.h"
#include "compiler/ir/ParseDepth.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>

using namespace moert;

namespace moec {

namespace {

/// A context and what its diagnostics say. Errors become a Status, which is what everything around
/// MLIR speaks; warnings go to the session. Lives as long as the module of its context.
class Compiler {
public:
  explicit Compiler(const Session &session)
      : handler(&context, [this, &session](mlir::Diagnostic &diagnostic) {
          std::string text = textOf(diagnostic);
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            errors += (errors.empty() ? "" : "\n") + text;
          else if (session.say)
            session.say(text);
        }) {
    context.loadDialect<mlir::moe::MoeDialect, mlir::func::FuncDialect>();
    // The whole module, where that is what an error is about.
    context.printOpOnDiagnostic(false);
  }

  mlir::MLIRContext *mlirContext() { return &context; }

  /// What failed, as it was diagnosed. What a module or a budget says is the user's to change.
  Status failure(std::string_view step) const {
    return invalidInput(errors.empty() ? strCat(step, " failed without a reason") : errors);
  }

private:
  // The operation is known to us alone unless it stands in a file.
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

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::string errors;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace

static Result<mlir::OwningOpRef<mlir::ModuleOp>> buildModule(Compiler &compiler,
                                                             const ImportedModel &model) {
  const Checkpoint &checkpoint = model.checkpoint;
  auto module =
      buildModel(compiler.mlirContext(), model.description, checkpoint.directory(),
                 [&](const WeightSource &source) { return checkpoint.storedType(source); });
  if (!module)
    return compiler.failure("building the IR");
  return module;
}

static Status runPasses(Compiler &compiler, mlir::ModuleOp module,
                        const mlir::moe::CompileOptions &options) {
  mlir::PassManager passes(compiler.mlirContext());
  mlir::moe::buildCompilePipeline(passes, options);
  if (mlir::failed(passes.run(module)))
    return compiler.failure("planning");
  return {};
}

static Status emitModule(Compiler &compiler, mlir::ModuleOp module, const Checkpoint &checkpoint,
                         const EmitOptions &options, const Session &session) {
  EmitPlan plan;
  if (mlir::failed(buildEmitPlan(module, plan)))
    return compiler.failure("reading the plan");
  std::string partial = OutputFile::partialPathOf(options.outputPath);
  if (std::filesystem::exists(partial) && !options.resume && session.say)
    session.say(strCat("starting over; --resume would go on with ", partial));
  MOERT_ASSIGN_OR_RETURN(EmitResult result, emitArtifact(plan, checkpoint, options));
  if (!session.say)
    return {};
  std::string resumed;
  if (result.resumedBytes != 0)
    resumed = strCat(", ", formatBytes(result.resumedBytes), " of it written earlier");
  session.say(strCat("wrote ", options.outputPath, ", ", formatBytes(result.fileBytes), resumed));
  return {};
}

// Weights are read while the output is written, and cannot be had again from it.
static Status checkSparesCheckpoint(const std::string &outputPath, const Checkpoint &checkpoint) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator(checkpoint.directory(), ignored))
    if (entry.path().extension() == ".json" || entry.path().extension() == ".safetensors")
      files.push_back(entry.path().string());
  return checkReplacesNone(outputPath, files);
}

static EmitOptions emitOptionsOf(const std::string &outputPath, unsigned threads, bool resume,
                                 const Session &session) {
  EmitOptions options;
  options.outputPath = outputPath;
  options.threads = threads;
  options.resume = resume;
  options.stop = session.stop;
  options.progress = session.progress;
  return options;
}

Status compileCheckpoint(const CompileRequest &request, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model, importCheckpoint(request.checkpointDirectory));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(request.outputPath, model.checkpoint));
  Compiler compiler(session);
  MOERT_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module, buildModule(compiler, model));
  MOERT_RETURN_IF_ERROR(runPasses(compiler, *module, request.passes));
  return emitModule(compiler, *module, model.checkpoint,
                    emitOptionsOf(request.outputPath, request.threads, request.resume, session),
                    session);
}

Status importToFile(const std::string &checkpointDirectory, const std::string &outputPath) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model, importCheckpoint(checkpointDirectory));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(outputPath, model.checkpoint));
  Compiler compiler{Session()};
  MOERT_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module, buildModule(compiler, model));
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(outputPath));
  MOERT_RETURN_IF_ERROR(file.append(std::string_view(text)));
  return file.commit();
}

static Result<std::unique_ptr<llvm::MemoryBuffer>> readModuleFile(const std::string &path) {
  std::error_code ignored;
  // A pipe would be waited for.
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    return invalidInput(path, ": this is not a regular file");
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return invalidInput(path, ": ", file.getError().message());
  llvm::StringRef text = (*file)->getBuffer();
  MOERT_RETURN_IF_ERROR(checkParseDepth({text.data(), text.size()}, path));
  return std::move(*file);
}

Status emitFromFile(const EmitRequest &request, const Session &session) {
  Compiler compiler(session);
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::MemoryBuffer> text,
                         readModuleFile(request.modulePath));
  llvm::SourceMgr source;
  source.AddNewSourceBuffer(std::move(text), llvm::SMLoc());
  auto module =
      mlir::parseSourceFile<mlir::ModuleOp>(source, mlir::ParserConfig(compiler.mlirContext()));
  if (!module)
    return compiler.failure("reading the module");
  auto model = (*module)->getAttrOfType<mlir::moe::ModelAttr>(mlir::moe::kModelAttr);
  if (!model)
    return invalidInput(request.modulePath, ": the module has no 'moe.model'");
  MOERT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(model.getCheckpoint().str()));
  MOERT_RETURN_IF_ERROR(checkReplacesNone(request.outputPath, std::span(&request.modulePath, 1)));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(request.outputPath, checkpoint));
  return emitModule(compiler, *module, checkpoint,
                    emitOptionsOf(request.outputPath, request.threads, request.resume, session),
                    session);
}

} // namespace moec
