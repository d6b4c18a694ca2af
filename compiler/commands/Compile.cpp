#include "compiler/commands/Compile.h"

#include "compiler/commands/WriteArtifact.h"
#include "compiler/pipeline/IrContext.h"
#include "compiler/planning/DeviceMemory.h"
#include "profiles/DeviceFile.h"
#include "runtime/base/OutputFile.h"
#include "runtime/format/Quality.h"

#include <filesystem>
#include <memory>

using namespace moert;

namespace moec {

Status checkSparesCheckpoint(const std::string &outputPath, const Checkpoint &checkpoint) {
  std::vector<std::string> files = checkpoint.shardPaths();
  std::error_code error;
  std::filesystem::directory_iterator entry(checkpoint.directory(), error), end;
  for (; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".json" || entry->path().extension() == ".safetensors")
      files.push_back(entry->path().string());
  return checkReplacesNone(outputPath, files);
}

Status writeModule(const std::string &text, const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  MOERT_RETURN_IF_ERROR(file.append(std::string_view(text)));
  return file.commit();
}

Status checkModulePath(const std::string &modulePath, const std::string &outputPath,
                       const Checkpoint &checkpoint) {
  if (modulePath.empty())
    return {};
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(modulePath, checkpoint));
  std::error_code ignored;
  if (std::filesystem::weakly_canonical(modulePath, ignored) ==
      std::filesystem::weakly_canonical(outputPath, ignored))
    return invalidInput("--save-module ", modulePath,
                        " would replace the artifact, expected another file than --output");
  return {};
}

Status compileCheckpoint(const CompileRequest &request, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model,
                         importCheckpoint(request.checkpointDirectory, session.say));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(request.outputPath, model.checkpoint));
  MOERT_RETURN_IF_ERROR(checkModulePath(request.modulePath, request.outputPath, model.checkpoint));
  MOERT_RETURN_IF_ERROR(
      refuseLeftEmission(request.outputPath, leftWorkOf(request.resume, request.restart)));
  for (const std::string &note : request.notes)
    sayTo(session, note);
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<ModelIr> ir, ModelIr::create(model, session));
  std::string moduleText;
  MOERT_ASSIGN_OR_RETURN(
      EmitPlan plan,
      ir->plan({}, request.passes, request.modulePath.empty() ? nullptr : &moduleText));
  if (request.passes.lowCopyBits != 0 && !hasLowCopies(plan.artifact))
    return invalidInput(request.checkpointDirectory, ": found no experts of more than ",
                        request.passes.lowCopyBits, " bits, expected some with --low-copy ",
                        request.passes.lowCopyBits);
  if (!request.passes.device.empty()) {
    MOERT_RETURN_IF_ERROR(checkReplacesNone(request.outputPath, {&request.passes.device, 1}));
    MOERT_ASSIGN_OR_RETURN(const DeviceProfile device, readDeviceFile(request.passes.device));
    MemoryWarnings().check(request.passes.budgets, plan.artifact.plans, device, session);
  }
  if (!request.modulePath.empty())
    MOERT_RETURN_IF_ERROR(writeModule(moduleText, request.modulePath));
  EmitOptions options = emitOptionsOf(request.outputPath, request.threads, request.resume, session);
  options.startsOverIfRefused = request.startsOverIfRefused;
  const std::string quality = isExact(plan.artifact) ? "" : qualityText(plan.artifact);
  MOERT_RETURN_IF_ERROR(writeArtifact(std::move(plan), model.checkpoint, options, session));
  if (!quality.empty())
    sayTo(session, quality);
  return {};
}

Status importToFile(const std::string &checkpointDirectory, const std::string &outputPath,
                    const Session &session) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model, importCheckpoint(checkpointDirectory, session.say));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(outputPath, model.checkpoint));
  IrContext ir(session);
  MOERT_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module,
                         buildModule(ir, model, session.say));
  return writeModule(textOf(*module), outputPath);
}

Status importArtifactToFile(const std::string &artifactPath, const std::string &outputPath,
                            const Session &session) {
  MOERT_RETURN_IF_ERROR(checkReplacesNone(outputPath, {&artifactPath, 1}));
  MOERT_ASSIGN_OR_RETURN(const StoredArtifact stored, StoredArtifact::open(artifactPath));
  IrContext ir(session);
  MOERT_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module, buildModule(ir, stored));
  return writeModule(textOf(*module), outputPath);
}

} // namespace moec
