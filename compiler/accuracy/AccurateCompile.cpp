#include "compiler/accuracy/AccurateCompile.h"

#include "compiler/accuracy/AcceptanceItems.h"
#include "compiler/accuracy/PlanMaterial.h"
#include "compiler/accuracy/PooledArtifacts.h"
#include "compiler/accuracy/SearchProgress.h"
#include "compiler/accuracy/SearchResults.h"
#include "compiler/accuracy/SearchSummary.h"
#include "compiler/commands/Reference.h"
#include "compiler/commands/SelfText.h"
#include "compiler/emit/CheckpointTokenizer.h"
#include "compiler/emit/Journal.h"
#include "compiler/pipeline/IrContext.h"
#include "compiler/plan/EstimateCheck.h"
#include "compiler/plan/WidthSolvers.h"
#include "compiler/planning/CheckpointMark.h"
#include "compiler/planning/DeviceMemory.h"
#include "compiler/search/AcceptanceLog.h"
#include "compiler/search/ArtifactJudge.h"
#include "compiler/session/WorkDirectory.h"
#include "profiles/DeviceFile.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"
#include "runtime/format/Writer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

using namespace moert;

namespace moec {

namespace {

/// One compilation, step after step. Lives for one call of compileAccurately().
class AccurateCompile {
public:
  AccurateCompile(const AccurateCompileRequest &asked, const Session &told, ImportedModel imported)
      : request(asked), session(told), model(std::move(imported)), devicePath(asked.passes.device),
        amounts(asked.amounts) {
    // The passes' plans are replaced by ones made with device and trace; no pass needs the device.
    request.passes.device.clear();
    amounts.isAcceptedOnItems = isOfItems(asked.metric);
  }

  /// Refuses bad input before an earlier compilation's work is touched.
  Status readInputs();
  Status run(WorkDirectory &directory);

private:
  Status readTexts();
  Status writeSelfTexts();
  Result<std::string> writeSelfText(SelfTextUse use, uint64_t documents);
  Status readAcceptance(const WindowCutter &cutter, const std::vector<std::byte> &table);
  CalibrateOptions calibrateOptions() const;
  Status checkTexts();
  Status openProfile(const std::string &path);
  Status checkBudgets();
  Status makeProfile();
  std::string profileKey() const;
  std::vector<SearchText> searchTexts() const;
  Status chooseSearchWindows();
  Status leaveOutSeenItems();
  Result<WidthSearchOutcome> search();
  uint64_t measurementFingerprint() const;
  uint64_t compileFingerprint() const;
  Status takeAcceptanceLevels();
  Status emitCandidate(const WidthAssignment &assignment, const std::string &path) const;
  Status learnRouting();
  Status emitOutput(const WidthAssignment &assignment, std::optional<Measured> measured,
                    const std::optional<WidthsChosen> &chosen);
  SearchResults resultsOf(const WidthSearchOutcome &outcome) const;
  void sayEstimates() const;
  void warnOfMemory(const EmitPlan &plan) {
    if (material.device)
      memoryWarnings.check(plan.artifact.plans, *material.device, session);
  }
  void say(const std::string &line) const {
    if (session.say)
      session.say(line);
  }
  std::string at(const char *name) const { return work->path() + "/" + name; }

  AccurateCompileRequest request;
  const Session &session;
  ImportedModel model;
  std::string devicePath;
  uint64_t deviceHash = 0;       // Hash of the file at devicePath.
  WorkDirectory *work = nullptr; // Owned by run().
  CheckpointHash hash;
  std::string referencePath;
  std::vector<SearchText> texts, acceptanceTexts;
  std::unique_ptr<AcceptanceItems> acceptanceItems; // Where the metric is of items.
  TextAmounts amounts;
  AcceptanceLevels levels;
  uint32_t compileNumber = 1; // Number of this compile of the checkpoint on its acceptance texts.
  std::unique_ptr<CalibrationProfile> profile;
  SearchWindows windows;
  std::unique_ptr<PooledArtifacts> artifacts;
  PlanMaterial material;
  MemoryWarnings memoryWarnings;
  std::unique_ptr<ArtifactTimes> times; // Where there is a device and a budget.
  std::unique_ptr<ArtifactJudge> judge;
  std::optional<EstimateCheck> estimateCheck;
};

} // namespace

Status AccurateCompile::readTexts() {
  MOERT_ASSIGN_OR_RETURN(std::vector<std::byte> table, makeTokenizerTable(model.checkpoint));
  if (table.empty())
    return invalidInput(model.checkpoint.directory(),
                        " has no tokenizer.json, expected one for reading texts");
  const uint32_t vocabulary = model.description.vocabularySize;
  MOERT_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(table, vocabulary));
  warnOfTokenizer(model.checkpoint, tokenizer, vocabulary, session.say);
  MOERT_ASSIGN_OR_RETURN(const WindowCutter cutter,
                         WindowCutter::create(tokenizer, model.description.eosTokens, vocabulary,
                                              amounts.windowTokens));
  MOERT_ASSIGN_OR_RETURN(
      texts, readSearchTexts(request.calibrationTexts, request.documentSeparator, cutter));
  return readAcceptance(cutter, table);
}

// The table is copied, not moved: the tokenizer uses it where it lies.
Status AccurateCompile::readAcceptance(const WindowCutter &cutter,
                                       const std::vector<std::byte> &table) {
  if (!request.target || !isOfItems(request.metric)) {
    MOERT_ASSIGN_OR_RETURN(acceptanceTexts, readSearchTexts(request.acceptanceTexts,
                                                            request.documentSeparator, cutter));
    return {};
  }
  MOERT_ASSIGN_OR_RETURN(acceptanceItems, readAcceptanceItems(request, model.description, table));
  acceptanceTexts = acceptanceItems->files;
  return {};
}

Result<std::string> AccurateCompile::writeSelfText(SelfTextUse use, uint64_t documents) {
  SelfTextRequest text;
  text.referencePath = referencePath;
  text.documents = documents;
  text.seed = request.seed;
  text.use = use;
  text.documentTokens = amounts.windowTokens;
  text.threads = request.threads;
  return writeSelfTextInto(*work, hash, std::move(text), session);
}

// After this, self-written texts are handled like other texts.
Status AccurateCompile::writeSelfTexts() {
  const bool calibrates = calibratesOnSelfText(request), accepts = acceptsOnSelfText(request);
  if (!calibrates && !accepts)
    return {};
  const uint64_t accepted = !accepts     ? 0
                            : calibrates ? request.selfTextDocuments / 2
                                         : request.selfTextDocuments;
  const uint64_t calibrated = request.selfTextDocuments - accepted;
  if (calibrates) {
    MOERT_ASSIGN_OR_RETURN(std::string path, writeSelfText(SelfTextUse::kCalibration, calibrated));
    request.calibrationTexts = {std::move(path)};
  }
  if (accepts) {
    MOERT_ASSIGN_OR_RETURN(std::string path, writeSelfText(SelfTextUse::kAcceptance, accepted));
    request.acceptanceTexts = {std::move(path)};
  }
  say(strCat("the checkpoint has written ", calibrated,
             " documents for calibration and search, and ", accepted, " for the acceptance"));
  MOERT_RETURN_IF_ERROR(readTexts());
  return checkTexts();
}

Status AccurateCompile::openProfile(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(profile, CalibrationProfile::open(path));
  return checkSameCheckpoint(profile->info().checkpointHash, path, hash,
                             strCat("is that of ", model.checkpoint.directory()));
}

// A budget that the fewest bits exceed is out of reach whatever the search finds.
Status AccurateCompile::checkBudgets() {
  mlir::moe::CompileOptions passes = request.passes;
  if (!request.bits)
    passes.bits = mlir::moe::ExpertBits::k2;
  if (request.areResidentBitsChosen && request.target)
    passes.residentBits = mlir::moe::ResidentBits::k4;
  MOERT_ASSIGN_OR_RETURN(EmitPlan plan, planModel(model, passes, session));
  MOERT_RETURN_IF_ERROR(
      checkPrefetching(plan.artifact, /*hasTrace=*/true, material.device.has_value()));
  // A budget relative to the experts' bytes is not known before their widths are.
  std::erase_if(plan.artifact.plans,
                [](const Plan &one) { return one.name.find('%') != one.name.npos; });
  warnOfMemory(plan);
  return {};
}

Status AccurateCompile::readInputs() {
  MOERT_ASSIGN_OR_RETURN(hash, checkpointHash(model.checkpoint, session.stop));
  if (!devicePath.empty()) {
    MOERT_ASSIGN_OR_RETURN(material.device, readDeviceFile(devicePath));
    MOERT_ASSIGN_OR_RETURN(const std::string device, readInput(devicePath));
    deviceHash = checksum64(std::as_bytes(std::span(device)));
  }
  MOERT_RETURN_IF_ERROR(readTexts());
  if (!request.profilePath.empty())
    MOERT_RETURN_IF_ERROR(openProfile(request.profilePath));
  if (!calibratesOnSelfText(request) && !acceptsOnSelfText(request))
    MOERT_RETURN_IF_ERROR(checkTexts());
  return checkBudgets();
}

CalibrateOptions AccurateCompile::calibrateOptions() const {
  CalibrateOptions options;
  options.textPaths = request.calibrationTexts;
  options.documentSeparator = request.documentSeparator;
  options.endTokens = model.description.eosTokens;
  options.vocabularySize = model.description.vocabularySize;
  options.tokens = request.calibrationTokens;
  options.seed = request.seed;
  return options;
}

// The windows of calibration are known before it runs: too few windows and units are refused now.
Status AccurateCompile::checkTexts() {
  if (!request.target)
    return {};
  if (profile)
    return chooseWindows(searchTexts(), acceptanceTexts, profile->info().tokens,
                         profile->info().windowTokens, amounts)
        .status();
  const CalibrateOptions options = calibrateOptions();
  MOERT_ASSIGN_OR_RETURN(const CalibrationWindows read,
                         calibrationWindowsOf(model.checkpoint, options));
  return chooseWindows(texts, acceptanceTexts, read.tokens, options.windowTokens, amounts).status();
}

// Without other text the search measures on the text that the quantizers were fitted to. Its
// losses are then a little too small; the acceptance tests, on other text, correct for it.
std::vector<SearchText> AccurateCompile::searchTexts() const {
  if (!texts.empty())
    return texts;
  return {textOfCalibration(std::filesystem::path(request.profilePath).filename().string(),
                            profile->info().tokens, amounts.windowTokens)};
}

// Everything that decides the bytes of a profile.
std::string AccurateCompile::profileKey() const {
  std::string key = strCat(formatChecksum(hash.sample), " ", request.calibrationTokens, " ",
                           request.seed, " '", request.documentSeparator, "'");
  for (const SearchText &text : texts)
    key += strCat(" ", formatChecksum(text.hash));
  return key;
}

Status AccurateCompile::makeProfile() {
  if (profile)
    return {};
  CalibrateOptions options = calibrateOptions();
  options.outputPath = at("calibration.profile");
  const std::string key = profileKey();
  // Damaged results of an earlier run are replaced.
  if (work->isMarked("calibration", key) && openProfile(options.outputPath).isOk())
    return {};
  MOERT_RETURN_IF_ERROR(work->unmark("calibration"));
  options.referencePath = referencePath;
  options.threads = request.threads;
  options.resume = request.resume;
  options.startsOverIfRefused = true;
  MOERT_RETURN_IF_ERROR(calibrate(model.checkpoint, options, {session.progress, session.stop, {}}));
  MOERT_RETURN_IF_ERROR(work->mark("calibration", key));
  return openProfile(options.outputPath);
}

Status AccurateCompile::chooseSearchWindows() {
  const CalibrationInfo &info = profile->info();
  if (texts.empty())
    say("the search measures on the profile's own tokens, as no --calibration-text was given");
  texts = searchTexts();
  MOERT_ASSIGN_OR_RETURN(
      windows, chooseWindows(texts, acceptanceTexts, info.tokens, info.windowTokens, amounts));
  if (acceptanceItems)
    return leaveOutSeenItems();
  if (windows.isSetAside)
    say(strCat("accepting on ", windows.acceptance.unitCount(), " units (",
               windows.acceptance.documentCount(), " documents, ", windows.acceptance.windows,
               " windows of ", amounts.windowTokens,
               " tokens) that are set aside from the calibration texts, as no --eval-text was "
               "given"));
  return {};
}

Status AccurateCompile::leaveOutSeenItems() {
  const uint64_t all = acceptanceItems->set->samples();
  std::vector<std::vector<int32_t>> tokens;
  for (uint64_t item = 0; item < all; ++item)
    tokens.push_back(acceptanceItems->set->itemTokens(item));
  const CalibrationInfo &info = profile->info();
  MOERT_RETURN_IF_ERROR(acceptanceItems->leaveOut(
      findSeenItems(tokens, info.tokens, info.windowTokens, windows, amounts.windowTokens),
      *request.target));
  if (const uint64_t kept = acceptanceItems->kept.size(); kept < all)
    say(strCat("accepting on ", kept, " of ", all,
               " items: calibration or the search has read parts of the others"));
  return {};
}

// Without budgets: a candidate with many bits may exceed the requested one.
Status AccurateCompile::emitCandidate(const WidthAssignment &assignment,
                                      const std::string &path) const {
  MOERT_ASSIGN_OR_RETURN(EmitPlan plan, artifacts->plan(assignment, {}));
  EmitOptions options;
  options.outputPath = path;
  return artifacts->emit(std::move(plan), assignment, options);
}

// One trace, for timing all candidates and for the artifact: as long as the fewest bits allow.
Status AccurateCompile::learnRouting() {
  const WidthItems &items = artifacts->items();
  const WidthAssignment fewest = uniformAssignment(items.input().problem, 0);
  MOERT_ASSIGN_OR_RETURN(material.learned, learn(*profile, items.expertBytesOf(fewest)));
  return {};
}

Status AccurateCompile::emitOutput(const WidthAssignment &assignment,
                                   std::optional<Measured> measured,
                                   const std::optional<WidthsChosen> &chosen) {
  auto plan =
      artifacts->plan(assignment, request.passes.budgets, measured ? memoryBytesOf(*measured) : 0);
  if (plan.status().code() == StatusCode::kInvalidInput && !request.passes.budgets.empty()) {
    work->keep();
    return invalidInput(plan.status().message(), "; with --resume and another --memory, ",
                        work->path(), " saves most of the time");
  }
  MOERT_RETURN_IF_ERROR(plan.status());
  warnOfMemory(*plan); // Relative budgets included: their bytes are known now.
  MOERT_RETURN_IF_ERROR(addPlans(*plan, material, session));
  if (chosen)
    addWidthsChosen(*chosen, plan->artifact);
  plan->artifact.measured = std::move(measured);
  markCheckpoint(hash, plan->artifact);
  EmitOptions options;
  options.outputPath = request.outputPath;
  options.resume = request.resume;
  options.startsOverIfRefused = true; // The expensive results are in the work directory.
  options.progress = session.progress;
  const std::string plans = plannedText(plan->artifact.plans);
  MOERT_RETURN_IF_ERROR(artifacts->emit(std::move(plan).value(), assignment, options));
  std::error_code ignored;
  say(strCat("wrote ", request.outputPath, ", ",
             formatBytes(std::filesystem::file_size(request.outputPath, ignored)), plans));
  return {};
}

// Everything but the assignment that decides a measurement. Without the target, so that a resumed
// compile with another one finds the measurements.
uint64_t AccurateCompile::measurementFingerprint() const {
  std::string text = strCat("measure ", MOE_VERSION, " ", formatChecksum(hash.sample), " ",
                            nameOf(request.method), " ", request.passes.nested, " ",
                            request.passes.group, " ", request.passes.activationGroup, " ",
                            request.bits.value_or(0), " ", request.areResidentBitsChosen, " ",
                            int(request.passes.residentBits), " ", int(request.passes.headBits),
                            " ", metricName(acceptanceItems ? LossMetric::kKl : request.metric),
                            " ", request.amounts.windowTokens);
  ChecksumStream stream;
  stream.update(std::as_bytes(std::span(text)));
  stream.update(std::as_bytes(std::span(profile->info().tokens)));
  for (const WindowSet *set : {&windows.probe, &windows.rest, &windows.acceptance})
    for (size_t t = 0; t < set->ids.size(); ++t) {
      stream.update(std::as_bytes(std::span(set->ids[t])));
      stream.update(std::as_bytes(std::span(set->units[t])));
    }
  return stream.digest();
}

// Everything that decides which candidates are tested: an equal compile repeats the same tests.
uint64_t AccurateCompile::compileFingerprint() const {
  std::string text =
      strCat("accept ", formatChecksum(measurementFingerprint()), " ", *request.target, " ",
             metricName(request.metric), " ", int(request.solver));
  if (material.device) // Then times choose between candidates.
    for (const std::string &word :
         {std::string(formatChecksum(deviceHash)),
          request.passes.budgets.empty() ? std::string() : request.passes.budgets.front(),
          request.passes.presets.empty() ? std::string() : request.passes.presets.front(),
          std::to_string(request.passes.context), std::to_string(request.passes.prefillChunk),
          std::to_string(request.passes.threads)})
      text += strCat(" '", word, "'");
  if (acceptanceItems)
    for (const auto &[option, value] : acceptanceItems->options)
      text += strCat(" --", option, " '", value, "'");
  return checksum64(std::as_bytes(std::span(text)));
}

Status AccurateCompile::takeAcceptanceLevels() {
  std::string path = request.acceptanceLogPath;
  if (path.empty()) {
    MOERT_ASSIGN_OR_RETURN(path, defaultAcceptanceLog());
  }
  std::vector<uint64_t> hashes;
  for (const SearchText &text : windows.isSetAside ? texts : acceptanceTexts)
    hashes.push_back(text.hash);
  MOERT_ASSIGN_OR_RETURN(compileNumber,
                         addToAcceptanceLog(path, {hash.sample, compileFingerprint(), hashes}));
  const std::optional<AcceptanceLevels> given = acceptanceLevels(compileNumber);
  if (!given) {
    work->keep();
    return invalidInput(kMaxCompilesOfText,
                        " compiles have tested this checkpoint on these texts (", path,
                        "), which leaves no probability of error for another one; expected other "
                        "documents: --eval-text, or --self-text with another --seed");
  }
  levels = *given;
  if (compileNumber > 1)
    say(strCat("compile ", compileNumber,
               " of this checkpoint on these texts: its acceptance tests need ",
               formatConfidence(levels.confidence(AcceptanceChain::kMain)),
               " confidence, which takes more bits than on other documents"));
  return {};
}

Result<WidthSearchOutcome> AccurateCompile::search() {
  WidthSearchInput input = artifacts->items().input();
  input.target = *request.target;
  // A first estimate: this divergence in nats loses about this fraction of the points. The chain of
  // tests covers divergences from a fraction of it to a multiple.
  if (acceptanceItems)
    input.firstThreshold = *request.target;
  input.solver = request.solver;
  if (times) {
    constexpr uint32_t kMeasurementsForTimes = 8; // For two knapsacks instead of one.
    input.times = &times->times();
    input.maxMeasurements += kMeasurementsForTimes;
  }
  if (request.solver == SolverChoice::kUniform || request.solver == SolverChoice::kEdgeMoe)
    input.others = uniformAssignment(input.problem, 8);
  const uint64_t searchWindows = windows.probe.windows + windows.rest.windows;
  const uint64_t accepted =
      acceptanceItems ? acceptanceItems->kept.size() : windows.acceptance.windows;
  constexpr uint64_t kUsualMeasurements = 14, kUsualTests = 4;
  const uint64_t probes = input.groups.empty() || request.solver == SolverChoice::kUniform
                              ? 0
                              : 2 + *std::max_element(input.groups.begin(), input.groups.end());
  SearchProgress progress(session.progress, acceptanceItems ? "windows and items" : "windows",
                          searchWindows * (1 + kUsualMeasurements) +
                              windows.probe.windows * probes + kUsualTests * 2 * accepted +
                              request.checkedEstimates * windows.probe.windows);
  JudgeOptions options;
  options.directory = work->path();
  options.referencePath = referencePath;
  options.metric = request.metric;
  options.target = *request.target;
  options.levels = levels;
  if (acceptanceItems) {
    options.itemSet = &*acceptanceItems->set;
    options.items = acceptanceItems->kept;
  }
  options.windowTokens = request.amounts.windowTokens;
  options.threads = request.threads;
  options.fingerprint = measurementFingerprint();
  options.stop = session.stop;
  options.onBegin = [&](const std::string &) { progress.beginPass(); };
  options.onWindows = [&](uint64_t done) { progress.advanceTo(done); };
  MOERT_ASSIGN_OR_RETURN(
      judge, ArtifactJudge::create(options, windows,
                                   [&](const WidthAssignment &assignment, const std::string &path) {
                                     return emitCandidate(assignment, path);
                                   }));
  MOERT_ASSIGN_OR_RETURN(WidthSearchOutcome outcome, searchWidths(input, *judge));
  if (outcome.isMet && request.checkedEstimates > 0) {
    MOERT_ASSIGN_OR_RETURN(estimateCheck, checkEstimates(outcome.estimates, input.isProbedDirectly,
                                                         request.checkedEstimates, *judge));
  }
  return outcome;
}

SearchResults AccurateCompile::resultsOf(const WidthSearchOutcome &outcome) const {
  return {request,
          profile->info(),
          windows,
          windows.isSetAside ? texts : acceptanceTexts,
          acceptanceItems.get(),
          artifacts->items(),
          outcome,
          judge->acceptance(outcome.best.assignment),
          compileNumber,
          judge->windowsEvaluated()};
}

void AccurateCompile::sayEstimates() const {
  char correlation[16];
  std::snprintf(correlation, sizeof(correlation), "%.2f", estimateCheck->rankCorrelation);
  say(strCat(estimateCheck->experts, " experts measured alone: the estimates order them with a ",
             "rank correlation of ", correlation));
}

Status AccurateCompile::run(WorkDirectory &directory) {
  work = &directory;
  Session quiet = session;
  quiet.say = {};
  if (request.target || !profile) {
    MOERT_ASSIGN_OR_RETURN(
        referencePath,
        makeReference({request.checkpointDirectory, formatChecksum(hash.sample), request.threads},
                      *work, quiet));
  }
  MOERT_RETURN_IF_ERROR(writeSelfTexts());
  MOERT_RETURN_IF_ERROR(makeProfile());
  if (request.target) {
    MOERT_RETURN_IF_ERROR(chooseSearchWindows());
    MOERT_RETURN_IF_ERROR(takeAcceptanceLevels());
  }
  MOERT_ASSIGN_OR_RETURN(artifacts,
                         PooledArtifacts::create(request, model, *profile, work->path(), session));
  MOERT_RETURN_IF_ERROR(learnRouting());
  MOERT_ASSIGN_OR_RETURN(times,
                         ArtifactTimes::create(material, *artifacts, request.passes, session.stop));
  WidthAssignment assignment(artifacts->items().input().problem.items.size(), 0);
  std::optional<Measured> measured;
  std::optional<WidthsChosen> chosen;
  if (request.target) {
    MOERT_ASSIGN_OR_RETURN(WidthSearchOutcome outcome, search());
    say(strCat("measured, the last ", acceptanceItems ? "column" : "columns",
               " on windows of the search:\n") +
        measuredTable(outcome, artifacts->items(), artifacts->expertWeights(), request.metric));
    if (!outcome.isMet) {
      work->keep();
      return outOfReach(resultsOf(outcome), work->path());
    }
    assignment = outcome.best.assignment;
    measured = measuredOf(resultsOf(outcome));
    if (estimateCheck)
      sayEstimates();
    chosen = widthsChosen(outcome, times ? times->place() : "");
    say(resultText(resultsOf(outcome)));
    say(strCat("widths: ", chosen->reason.value, ", ", chosen->reason.reason));
  }
  return emitOutput(assignment, std::move(measured), chosen);
}

Status compileAccurately(const AccurateCompileRequest &request, const Session &session) {
  MOERT_RETURN_IF_ERROR(checkAccurateRequest(request));
  MOERT_ASSIGN_OR_RETURN(ImportedModel model,
                         importCheckpoint(request.checkpointDirectory, session.say));
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(request.outputPath, model.checkpoint));
  std::optional<AccurateCompile> compile(std::in_place, request, session, std::move(model));
  MOERT_RETURN_IF_ERROR(compile->readInputs());
  std::error_code ignored;
  const std::string directory = WorkDirectory::pathOf(request.outputPath);
  const bool isStartingOver = !request.resume && std::filesystem::exists(directory, ignored);
  MOERT_ASSIGN_OR_RETURN(WorkDirectory work,
                         WorkDirectory::open(request.outputPath, request.resume));
  if (isStartingOver && session.say)
    session.say(strCat("starting over; --resume would have continued from ", directory));
  const std::array beside = {OutputFile::partialPathOf(request.outputPath),
                             Journal::pathOf(request.outputPath)};
  // Without a work directory the files are another command's.
  if (!work.isResumed() && WorkDirectory::removeFiles(beside) && session.say)
    session.say(strCat("removed ", beside.front(), ", which an interrupted command had left"));
  Status status = compile->run(work);
  compile.reset(); // Some file systems cannot remove a directory whose files are open.
  return work.keepAfter(std::move(status), beside);
}

} // namespace moec
