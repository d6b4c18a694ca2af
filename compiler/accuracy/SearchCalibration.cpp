#include "compiler/accuracy/SearchCalibration.h"

#include "compiler/accuracy/SearchMaterial.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"

#include <utility>

using namespace moert;

namespace moec {

Result<std::string> writeSelfText(const AccurateCompileRequest &request, SelfTextUse use,
                                  const char *label, uint64_t documents,
                                  const CheckpointHash &checkpoint,
                                  const std::string &referencePath, const WorkDirectory &work,
                                  const Session &session) {
  SelfTextRequest text;
  text.referencePath = referencePath;
  text.documents = documents;
  text.seed = request.seed;
  text.use = use;
  text.label = label;
  text.documentTokens = request.amounts.windowTokens;
  text.hasNats = request.hasTarget(); // Without one nothing is measured twice.
  text.threads = request.threads;
  return writeSelfTextInto(work, checkpoint, std::move(text), session);
}

// Each document fills one window, unless the model's positions are fewer.
static Status markSelfWritten(SearchText &text, const std::string &path) {
  text.isSelfWritten = true;
  MOERT_ASSIGN_OR_RETURN(const std::string content, readInput(path));
  MOERT_ASSIGN_OR_RETURN(text.referenceNats, referenceNatsOf(content, path));
  if (text.referenceNats.size() != text.windows.windows())
    text.referenceNats.clear();
  return {};
}

Result<CompileTexts> completeTexts(const AccurateCompileRequest &request, CompileInputs &inputs,
                                   const std::string &referencePath, const WorkDirectory &work,
                                   const Session &session) {
  const bool calibrates = calibratesOnSelfText(request), accepts = acceptsOnSelfText(request);
  if (!calibrates && !accepts)
    return std::move(inputs.texts);
  const auto [calibrated, accepted] = selfWrittenOf(request);
  AccurateCompileRequest written = request;
  const auto write = [&](SelfTextUse use, const char *label, uint64_t documents) {
    return writeSelfText(request, use, label, documents, inputs.hash, referencePath, work, session);
  };
  if (calibrates) {
    MOERT_ASSIGN_OR_RETURN(std::string path,
                           write(SelfTextUse::kCalibration, kWritingCalibration, calibrated));
    written.calibrationTexts = {std::move(path)};
  }
  if (accepts) {
    MOERT_ASSIGN_OR_RETURN(std::string path,
                           write(SelfTextUse::kAcceptance, kWritingAcceptance, accepted));
    written.acceptanceTexts = {std::move(path)};
  }
  sayTo(session,
        strCat("the checkpoint has written ",
               calibrates ? strCat(calibrated, request.hasTarget()
                                                   ? " documents for calibration and search"
                                                   : " documents for calibration")
                          : "",
               calibrates && accepts ? ", and " : "",
               accepts ? strCat(accepted, " documents for the acceptance") : ""));
  MOERT_ASSIGN_OR_RETURN(CompileTexts texts, readCompileTexts(written, inputs.model, session));
  if (calibrates)
    MOERT_RETURN_IF_ERROR(
        markSelfWritten(texts.calibration.front(), written.calibrationTexts.front()));
  if (accepts)
    MOERT_RETURN_IF_ERROR(
        markSelfWritten(texts.acceptance.front(), written.acceptanceTexts.front()));
  if (written.hasTarget())
    MOERT_RETURN_IF_ERROR(checkSearchMaterial(written, inputs, texts));
  return texts;
}

/// Everything that decides the bytes of a profile.
static std::string profileKey(const AccurateCompileRequest &request, const CompileInputs &inputs,
                              const CompileTexts &texts) {
  std::string key =
      strCat(formatChecksum(inputs.hash.sample), " ", request.calibrationTokens, " ", request.seed,
             " '", request.documentSeparator, "'", keepsProfileRows(request) ? " rows" : "");
  for (const SearchText &text : texts.calibration)
    key += strCat(" ", formatChecksum(text.hash));
  return key;
}

std::string profilePathOf(const AccurateCompileRequest &request, const WorkDirectory &work) {
  return request.profilePath.empty() ? work.path() + "/calibration.profile" : request.profilePath;
}

Result<std::unique_ptr<CalibrationProfile>>
calibrateForSearch(const AccurateCompileRequest &request, CompileInputs &inputs,
                   const CompileTexts &texts, const std::string &referencePath,
                   PooledArtifacts *artifacts, const WorkDirectory &work, const Session &session) {
  if (inputs.profile)
    return std::move(inputs.profile);
  CalibrateOptions options = calibrateOptions(request, inputs.model, texts);
  options.outputPath = profilePathOf(request, work);
  const std::string key = profileKey(request, inputs, texts);
  if (work.isMarked("calibration", key)) {
    if (auto kept = openProfileOf(inputs, options.outputPath); kept.isOk()) {
      const Status filled = artifacts ? artifacts->fillPool(**kept) : Status();
      if (filled.isOk())
        return kept;
      if (filled.code() != StatusCode::kInvalidInput)
        return filled;
    }
  }
  MOERT_RETURN_IF_ERROR(work.unmark("calibration"));
  options.referencePath = referencePath;
  options.threads = request.threads;
  options.resume = request.resume;
  options.startsOverIfRefused = true;
  CalibrateListeners listeners;
  listeners.progress = session.progress;
  listeners.stop = session.stop;
  if (artifacts) {
    listeners.onLayer = [&](const CalibrationProfile &profile, size_t layer,
                            const std::function<void(double)> &advance) {
      return artifacts->fillLayer(profile, layer, advance);
    };
    listeners.layerBytes = artifacts->layerBytes();
  }
  MOERT_RETURN_IF_ERROR(calibrate(inputs.model.checkpoint, options, listeners));
  MOERT_RETURN_IF_ERROR(work.mark("calibration", key));
  return openProfileOf(inputs, options.outputPath);
}

} // namespace moec
