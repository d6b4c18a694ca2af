#include "compiler/commands/WriteArtifact.h"

#include "compiler/calibrate/Calibrate.h"
#include "compiler/emit/CheckpointTokenizer.h"
#include "compiler/emit/Journal.h"
#include "compiler/planning/CheckpointMark.h"
#include "compiler/planning/PlanningSession.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"

#include <filesystem>
#include <optional>
#include <span>

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
  sayTo(session, left->leftText());
  return left;
}

Status refuseLeftEmission(const std::string &outputPath, LeftWork left) {
  const std::string partial = OutputFile::partialPathOf(outputPath);
  std::error_code error;
  if (left == LeftWork::kRefuse && Journal(outputPath).exists() &&
      std::filesystem::exists(partial, error))
    return leftWorkError(partial);
  return {};
}

static void sayWritten(const EmitOptions &options, const EmitResult &result, const EmitPlan &plan,
                       const Session &session) {
  std::string resumed;
  if (result.resumedBytes != 0)
    resumed = strCat(", ", formatBytes(result.resumedBytes), " of it written earlier");
  sayTo(session, strCat("wrote ", options.outputPath, ", ", formatBytes(result.fileBytes), resumed,
                        plannedText(plan.artifact.plans)));
}

Status writePlan(EmitPlan plan, const Checkpoint &checkpoint, const CheckpointHash &hash,
                 const EmitOptions &options, const Session &session) {
  MOERT_RETURN_IF_ERROR(
      warnOfTokenizer(checkpoint, plan.artifact.model.vocabularySize, session.say));
  markCheckpoint(hash, plan.artifact);
  MOERT_ASSIGN_OR_RETURN(const EmitResult result, emitArtifact(plan, checkpoint, options));
  sayWritten(options, result, plan, session);
  return {};
}

Status writeCopy(EmitPlan plan, const StoredArtifact &stored, const EmitOptions &options,
                 const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const EmitResult result, emitArtifact(plan, stored, options));
  sayWritten(options, result, plan, session);
  return {};
}

Status writeArtifact(EmitPlan plan, const Checkpoint &checkpoint, const EmitOptions &options,
                     const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const std::optional<WorkDirectory> left,
                         leftWork(checkpoint.directory(), options, session));
  MOERT_ASSIGN_OR_RETURN(CheckpointHash hash, checkpointHash(checkpoint, session.stop));
  return writePlan(std::move(plan), checkpoint, hash, options, session);
}

Status withResumeHint(Status status, const std::string &outputPath) {
  if (status.code() != StatusCode::kFailed || !Journal(outputPath).exists())
    return status;
  return failed(status.message(), "; --resume continues from ",
                OutputFile::partialPathOf(outputPath));
}

EmitOptions emitOptionsOf(const std::string &outputPath, unsigned threads, bool resume,
                          const Session &session) {
  EmitOptions options;
  options.outputPath = outputPath;
  options.threads = threads;
  options.resume = resume;
  options.stop = session.stop;
  options.progress = session.progress;
  return options;
}

} // namespace moec
