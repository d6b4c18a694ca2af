#include "compiler/commands/Compile.h"

#include "compiler/calibrate/Calibrate.h"
#include "compiler/emit/CheckpointTokenizer.h"
#include "compiler/emit/Journal.h"
#include "compiler/ir/MoeDialect.h"
#include "compiler/ir/ParseDepth.h"
#include "compiler/pipeline/IrContext.h"
#include "compiler/planning/CheckpointMark.h"
#include "compiler/planning/DeviceMemory.h"
#include "compiler/planning/PlanningSession.h"
#include "compiler/session/WorkDirectory.h"
#include "profiles/DeviceFile.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <optional>

using namespace moert;

namespace moec {

/// The work directory of an interrupted command with the same output, which this one cannot resume.
static Result<std::optional<WorkDirectory>> leftWork(const std::string &checkpointDirectory,
                                                     const EmitOptions &options,
                                                     const Session &session) {
  MOERT_ASSIGN_OR_RETURN(
      std::optional<WorkDirectory> left,
      WorkDirectory::findLeft(options.outputPath, std::span(&checkpointDirectory, 1)));
  if (!left)
    return left;
  if (options.resume && !Journal(options.outputPath).exists())
    return invalidInput(left->path(), " was left by another command, such as a compile with "
                                      "--accuracy-loss; expected --resume with the options of that "
                                      "command, or no --resume");
  sayTo(session, left->leftText(options.outputPath));
  return left;
}

static Status emitPlan(EmitPlan plan, const Checkpoint &checkpoint, const EmitOptions &options,
                       const Session &session) {
  MOERT_ASSIGN_OR_RETURN(std::optional<WorkDirectory> left,
                         leftWork(checkpoint.directory(), options, session));
  std::string partial = OutputFile::partialPathOf(options.outputPath);
  std::error_code error;
  if (std::filesystem::exists(partial, error) && !options.resume)
    sayTo(session, strCat("starting over; --resume would continue from ", partial));
  MOERT_RETURN_IF_ERROR(
      warnOfTokenizer(checkpoint, plan.artifact.model.vocabularySize, session.say));
  MOERT_ASSIGN_OR_RETURN(CheckpointHash hash, checkpointHash(checkpoint, session.stop));
  markCheckpoint(hash, plan.artifact);
  MOERT_ASSIGN_OR_RETURN(EmitResult result, emitArtifact(plan, checkpoint, options));
  if (left)
    left->discard();
  if (!session.say)
    return {};
  std::string resumed;
  if (result.resumedBytes != 0)
    resumed = strCat(", ", formatBytes(result.resumedBytes), " of it written earlier");
  session.say(strCat("wrote ", options.outputPath, ", ", formatBytes(result.fileBytes), resumed,
                     plannedText(plan.artifact.plans)));
  return {};
}

Status withResumeHint(Status status, const std::string &outputPath) {
  if (status.code() != StatusCode::kFailed || !Journal(outputPath).exists())
    return status;
  return failed(status.message(), "; --resume continues from ",
                OutputFile::partialPathOf(outputPath));
}

Status checkSparesCheckpoint(const std::string &outputPath, const Checkpoint &checkpoint) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(checkpoint.directory(), error), end;
  for (; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".json" || entry->path().extension() == ".safetensors")
      files.push_back(entry->path().string());
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
  MOERT_ASSIGN_OR_RETURN(ImportedModel model,
                         importCheckpoint(request.checkpointDirectory, session.say));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(request.outputPath, model.checkpoint));
  for (const std::string &note : request.notes)
    sayTo(session, note);
  MOERT_ASSIGN_OR_RETURN(EmitPlan plan, planModel(model, request.passes, session));
  if (!request.passes.device.empty()) {
    MOERT_RETURN_IF_ERROR(checkReplacesNone(request.outputPath, {&request.passes.device, 1}));
    MOERT_ASSIGN_OR_RETURN(const DeviceProfile device, readDeviceFile(request.passes.device));
    MemoryWarnings().check(request.passes.budgets, plan.artifact.plans, device, session);
  }
  EmitOptions options = emitOptionsOf(request.outputPath, request.threads, request.resume, session);
  options.startsOverIfRefused = request.startsOverIfRefused;
  return emitPlan(std::move(plan), model.checkpoint, options, session);
}

Status importToFile(const std::string &checkpointDirectory, const std::string &outputPath,
                    const Session &session) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model, importCheckpoint(checkpointDirectory, session.say));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(outputPath, model.checkpoint));
  IrContext ir(session);
  MOERT_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module, buildModule(ir, model));
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(outputPath));
  MOERT_RETURN_IF_ERROR(file.append(std::string_view(text)));
  return file.commit();
}

static Result<std::unique_ptr<llvm::MemoryBuffer>> readModuleFile(const std::string &path) {
  std::error_code ignored;
  // Opening a pipe would block.
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
  IrContext ir(session);
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::MemoryBuffer> text,
                         readModuleFile(request.modulePath));
  llvm::SourceMgr source;
  source.AddNewSourceBuffer(std::move(text), llvm::SMLoc());
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(source, mlir::ParserConfig(ir.context()));
  if (!module)
    return ir.failure("reading the module");
  auto model = (*module)->getAttrOfType<mlir::moe::ModelAttr>(mlir::moe::kModelAttr);
  if (!model)
    return invalidInput(request.modulePath, ": the module has no 'moe.model'");
  MOERT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(model.getCheckpoint().str()));
  MOERT_RETURN_IF_ERROR(checkReplacesNone(request.outputPath, std::span(&request.modulePath, 1)));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(request.outputPath, checkpoint));
  MOERT_ASSIGN_OR_RETURN(EmitPlan plan, planOf(ir, *module));
  return emitPlan(std::move(plan), checkpoint,
                  emitOptionsOf(request.outputPath, request.threads, request.resume, session),
                  session);
}

} // namespace moec
