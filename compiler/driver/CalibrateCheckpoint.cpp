#include "compiler/driver/CalibrateCheckpoint.h"

#include "compiler/driver/Reference.h"
#include "compiler/import/Checkpoint.h"
#include "runtime/base/OutputFile.h"

using namespace moert;

namespace moec {

static Status makeAndPlay(const std::string &checkpointDirectory, const Checkpoint &checkpoint,
                          const std::string &workDirectory, CalibrateOptions options,
                          const Session &session) {
  ReferenceRequest reference = {checkpointDirectory, workDirectory, options.threads,
                                options.resume};
  MOERT_ASSIGN_OR_RETURN(options.referencePath, makeReference(reference, session));
  return calibrate(checkpoint, options, {session.progress, session.stop, session.say});
}

Status calibrateCheckpoint(const std::string &checkpointDirectory, CalibrateOptions options,
                           const Session &session) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model, importCheckpoint(checkpointDirectory));
  // What can be refused is, before the reference costs its time.
  MOERT_RETURN_IF_ERROR(checkReplacesNone(options.outputPath, options.textPaths));
  MOERT_RETURN_IF_ERROR(checkCalibrationTexts(model.checkpoint, options));
  const std::string work = options.outputPath + ".work";
  Status status = makeAndPlay(checkpointDirectory, model.checkpoint, work, options, session);
  if (status.code() != StatusCode::kInterrupted)
    removeReference(work);
  if (status.isOk() && session.say)
    session.say(strCat("wrote ", options.outputPath));
  return status;
}

} // namespace moec
