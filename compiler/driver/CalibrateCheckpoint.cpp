#include "compiler/driver/CalibrateCheckpoint.h"

#include "compiler/calibrate/CalibrationJournal.h"
#include "compiler/calibrate/StateFile.h"
#include "compiler/driver/Reference.h"
#include "compiler/driver/WorkDirectory.h"
#include "compiler/import/Checkpoint.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"

#include <filesystem>

using namespace moert;

namespace moec {

static Status makeAndPlay(const Checkpoint &checkpoint, const WorkDirectory &work,
                          CalibrateOptions options, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(CheckpointHash hash, checkpointHash(checkpoint, session.stop));
  ReferenceRequest reference = {checkpoint.directory(), formatChecksum(hash.sample),
                                options.threads};
  MOERT_ASSIGN_OR_RETURN(options.referencePath, makeReference(reference, work, session));
  return calibrate(checkpoint, options, {session.progress, session.stop, session.say});
}

// Names all that lies beside the profile: whoever does not go on has it to remove.
static Status interrupted(const std::string &outputPath, const WorkDirectory &work) {
  std::string left = work.path();
  std::error_code ignored;
  for (const std::string &path :
       {OutputFile::partialPathOf(outputPath), StateFile::pathOf(outputPath),
        CalibrationJournal::pathOf(outputPath)})
    if (std::filesystem::exists(path, ignored))
      left += strCat(", ", path);
  return Status(StatusCode::kInterrupted, strCat("interrupted; --resume goes on from ", left));
}

Status calibrateCheckpoint(const std::string &checkpointDirectory, CalibrateOptions options,
                           const Session &session) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model, importCheckpoint(checkpointDirectory));
  // What can be refused is, before the reference costs its time.
  MOERT_RETURN_IF_ERROR(checkReplacesNone(options.outputPath, options.textPaths));
  MOERT_RETURN_IF_ERROR(WorkDirectory::checkHoldsNone(options.outputPath, options.textPaths));
  MOERT_RETURN_IF_ERROR(checkCalibrationTexts(model.checkpoint, options));
  MOERT_ASSIGN_OR_RETURN(WorkDirectory work,
                         WorkDirectory::open(options.outputPath, options.resume));
  Status status = makeAndPlay(model.checkpoint, work, options, session);
  // What an earlier run has left is not lost to a full disk or a wrong option of this one.
  const bool isInterrupted = status.code() == StatusCode::kInterrupted;
  if (isInterrupted || (!status.isOk() && work.isResumed()))
    work.keep();
  if (isInterrupted)
    return interrupted(options.outputPath, work);
  if (status.isOk() && session.say)
    session.say(strCat("wrote ", options.outputPath));
  return status;
}

} // namespace moec
