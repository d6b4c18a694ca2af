#include "compiler/commands/CalibrateCheckpoint.h"

#include "compiler/calibrate/CalibrationJournal.h"
#include "compiler/calibrate/StateFile.h"
#include "compiler/commands/Reference.h"
#include "compiler/commands/SelfText.h"
#include "compiler/emit/CheckpointTokenizer.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/import/WholeInputs.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"
#include "runtime/memory/MemoryRoom.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

using namespace moert;

namespace moec {

static Status makeAndPass(const Checkpoint &checkpoint, const WorkDirectory &work,
                          CalibrateOptions options, uint64_t selfTextDocuments,
                          const Session &session) {
  MOERT_ASSIGN_OR_RETURN(CheckpointHash hash, checkpointHash(checkpoint, session.stop));
  ReferenceRequest reference = {checkpoint.directory(), formatChecksum(hash.sample),
                                options.threads};
  MOERT_ASSIGN_OR_RETURN(options.referencePath, makeReference(reference, work, session));
  if (selfTextDocuments > 0) {
    SelfTextRequest text;
    text.referencePath = options.referencePath;
    text.documents = selfTextDocuments;
    text.seed = options.seed;
    text.use = SelfTextUse::kCalibration;
    text.label = kWritingCalibration;
    text.documentTokens = options.windowTokens;
    text.threads = options.threads;
    MOERT_ASSIGN_OR_RETURN(std::string path,
                           writeSelfTextInto(work, hash, std::move(text), session));
    options.textPaths = {std::move(path)};
  }
  return calibrate(checkpoint, options, {session.progress, session.stop, session.say});
}

Status calibrateCheckpoint(const std::string &checkpointDirectory, CalibrateOptions options,
                           uint64_t selfTextDocuments, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(ImportedModel model, importCheckpoint(checkpointDirectory));
  MOERT_RETURN_IF_ERROR(requireDecoder(model.description, checkpointDirectory));
  // Refuse bad input before the reference is made, which takes long.
  MOERT_RETURN_IF_ERROR(requireTokenizer(model, "calibration"));
  MOERT_RETURN_IF_ERROR(checkReplacesNone(options.outputPath, options.textPaths));
  MOERT_RETURN_IF_ERROR(WorkDirectory::checkHoldsNone(options.outputPath, options.textPaths));
  MOERT_RETURN_IF_ERROR(checkDocumentSeparator(options.documentSeparator));
  if (options.memory)
    MOERT_RETURN_IF_ERROR(checkBudgetLimit(*options.memory, systemMemory()));
  options.endTokens = model.description.eosTokens;
  options.vocabularySize = model.description.vocabularySize;
  if (selfTextDocuments == 0)
    MOERT_RETURN_IF_ERROR(calibrationWindowsOf(model.checkpoint, options).status());
  const std::array beside = {OutputFile::partialPathOf(options.outputPath),
                             StateFile::pathOf(options.outputPath),
                             CalibrationJournal::pathOf(options.outputPath)};
  MOERT_ASSIGN_OR_RETURN(
      WorkDirectory work,
      WorkDirectory::open(options.outputPath, leftWorkOf(options.resume, options.restart), beside));
  Status status = makeAndPass(model.checkpoint, work, options, selfTextDocuments, session);
  if (status.isOk())
    sayTo(session, strCat("wrote ", options.outputPath));
  return work.keepAfter(std::move(status), beside);
}

} // namespace moec
