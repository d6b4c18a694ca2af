#include "compiler/planning/ReadTexts.h"

#include "compiler/profile/CalibrationProfile.h"
#include "runtime/base/InputText.h"
#include "runtime/evaluation/TextDocuments.h"

#include <algorithm>
#include <memory>

using namespace moert;

namespace moec {

static bool isSame(const auto &one, const auto &other) {
  return one.hash == other.hash && one.bytes == other.bytes;
}

static Status addTexts(const Model &model, std::span<const std::string> paths,
                       const std::string &documentSeparator, ReadTexts &read) {
  if (paths.empty())
    return {};
  if (!model.tokenizer())
    return invalidInput(model.path(), " has no tokenizer, expected one for reading texts");
  const ModelInfo &info = model.artifact().model;
  constexpr uint32_t kAnyWindow = 512; // Only tokensOf() is used.
  MOERT_ASSIGN_OR_RETURN(
      const WindowCutter cutter,
      WindowCutter::create(*model.tokenizer(), info.eosTokens, info.vocabularySize, kAnyWindow));
  for (const std::string &path : paths) {
    MOERT_ASSIGN_OR_RETURN(const TextFile file, readTextFile(path, documentSeparator));
    read.files.push_back({file.name, file.hash, file.bytes});
    for (const TextDocument &document : file.documents) {
      auto tokens = cutter.tokensOf(document);
      if (!tokens.isOk())
        return tokens.status().withContext(file.name);
      if (!tokens->empty())
        read.seen.add(*tokens, static_cast<uint32_t>(tokens->size()));
    }
  }
  return {};
}

static Status addProfile(const std::string &path, ReadTexts &read) {
  if (path.empty())
    return {};
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<CalibrationProfile> profile,
                         CalibrationProfile::open(path));
  const CalibrationInfo &info = profile->info();
  read.seen.add(info.tokens, info.windowTokens);
  for (const CalibrationText &text : info.texts)
    read.files.push_back({text.name, text.hash, text.bytes});
  return {};
}

std::optional<std::vector<uint64_t>> keptRuns(const Artifact &artifact,
                                              const std::optional<PlanTrace> &trace) {
  if (trace)
    return trace->readRuns;
  if (artifact.measured)
    return std::nullopt;
  return std::vector<uint64_t>(); // It was not calibrated.
}

/// For an artifact that keeps nothing of the texts.
static Status checkGiven(const Model &model, const GivenTexts &given, const ReadTexts &read,
                         const Session &session) {
  constexpr const char *kLacking = "was compiled by a version that did not keep what calibration "
                                   "and the search for its widths have read";
  const std::optional<Measured> &measured = model.artifact().measured;
  if (!measured && given.calibrationTexts.empty() && given.profilePath.empty())
    sayTo(session,
          strCat(model.path(), " ", kLacking,
                 ": nothing of it is left out of --eval-text. --calibration-text names it, "
                 "and an artifact of this version keeps it"));
  if (!measured)
    return {};
  for (const MeasuredText &text : measured->calibrationTexts)
    if (std::ranges::none_of(read.files, [&](const auto &file) { return isSame(file, text); }))
      return invalidInput(
          model.path(), " ", kLacking, ", which is ", text.name, ", ", text.bytes,
          " bytes, and its documents cannot test a loss; expected --calibration-text "
          "with this file, so that they are left out of --eval-text; a profile has only a part "
          "of it, and what --self-text wrote is gone: compile again");
  return {};
}

Result<ReadTexts> readTextsOf(const Model &model, const std::optional<std::vector<uint64_t>> &kept,
                              const GivenTexts &given, const Session &session) {
  ReadTexts read;
  MOERT_RETURN_IF_ERROR(addTexts(model, given.calibrationTexts, given.documentSeparator, read));
  if (kept) {
    read.seen.add(*kept);
    if (const std::optional<Measured> &measured = model.artifact().measured)
      for (const MeasuredText &text : measured->calibrationTexts)
        read.files.push_back({text.name, text.hash, text.bytes});
  } else {
    // Before the profile: it has only the windows that calibration read, and the search may have
    // read others of the same file.
    MOERT_RETURN_IF_ERROR(checkGiven(model, given, read, session));
  }
  MOERT_RETURN_IF_ERROR(addProfile(given.profilePath, read));
  return read;
}

Status checkUnread(const ReadTexts &read, std::span<const EvaluatedText> texts,
                   std::span<const std::string> paths) {
  for (size_t i = 0; i < texts.size(); ++i)
    for (const ReadFile &file : read.files)
      if (isSame(file, texts[i]))
        return invalidInput("--eval-text ", inputName(paths[i]), " is the calibration text ",
                            file.name, ", expected text that calibration has not seen");
  return {};
}

} // namespace moec
