#include "compiler/accuracy/AccurateCompile.h"

#include "compiler/accuracy/CompileInputs.h"
#include "compiler/accuracy/MeasuredSearch.h"
#include "compiler/accuracy/QuickLoss.h"
#include "compiler/accuracy/SearchCalibration.h"
#include "compiler/accuracy/SearchCosts.h"
#include "compiler/accuracy/SearchResults.h"
#include "compiler/accuracy/SearchSummary.h"
#include "compiler/commands/Reference.h"
#include "compiler/commands/WriteArtifact.h"
#include "compiler/emit/CheckpointChat.h"
#include "compiler/emit/Journal.h"
#include "compiler/import/WholeInputs.h"
#include "compiler/plan/WidthSolvers.h"
#include "compiler/planning/CheckpointMark.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"
#include "runtime/format/Quality.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

using namespace moert;

namespace moec {

namespace {

/// What the output holds.
struct ChosenWidths {
  WidthAssignment assignment;
  std::optional<Measured> measured;   // With a target.
  std::optional<WidthsChosen> reason; // With a target.
};

} // namespace

static std::string estimatesText(const EstimateCheck &check) {
  char correlation[16];
  std::snprintf(correlation, sizeof(correlation), "%.2f", check.rankCorrelation);
  return strCat(check.experts, " experts measured alone: the estimates order them with a ",
                "rank correlation of ", correlation);
}

/// Searches widths that meet the target. Keeps the work directory if none do.
static Result<ChosenWidths> chooseWidths(const AccurateCompileRequest &request,
                                         const SearchMaterial &material, const AcceptanceTurn &turn,
                                         const CalibrationInfo &calibration,
                                         const PooledArtifacts &artifacts, ArtifactTimes *times,
                                         const std::string &referencePath, WorkDirectory &work,
                                         const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const MeasuredSearch search,
                         searchMeasured(request, material, turn.levels, artifacts, times,
                                        referencePath, work.path(), session));
  const WidthSearchOutcome &outcome = search.outcome;
  sayTo(session,
        strCat("measured, the last ", material.items ? "column" : "columns",
               " on windows of the search:\n") +
            measuredTable(outcome, artifacts.items(), artifacts.expertWeights(), request.metric));
  if (request.quantileTarget)
    sayTo(session, request.target
                       ? "expected bound: of the mean, or if it is higher that of the quantile, in "
                         "proportion to --accuracy-loss"
                       : "expected bound: of the loss that this fraction of units does not exceed");
  const SearchResults results{request, calibration,  material,
                              search,  turn.compile, artifacts.items()};
  if (!outcome.isMet) {
    work.keep();
    return outOfReach(results, work.path());
  }
  if (search.estimates)
    sayTo(session, estimatesText(*search.estimates));
  ChosenWidths chosen{outcome.best.assignment, measuredOf(results),
                      widthsChosen(outcome, times ? times->place() : "")};
  sayTo(session, resultText(results));
  sayTo(session, strCat("widths: ", chosen.reason->widths.reason.value, ", ",
                        chosen.reason->widths.reason.reason));
  return chosen;
}

/// Writes the artifact at `path`. Returns what its plans are, for the user.
static Result<std::string> emitOutput(const AccurateCompileRequest &request,
                                      const CheckpointHash &hash, const PooledArtifacts &artifacts,
                                      const PlanMaterial &planning, ChosenWidths chosen,
                                      const std::string &path, MemoryWarnings &warnings,
                                      WorkDirectory &work, const Session &session) {
  // Images have no trace (learnFor()).
  mlir::moe::PlanSources sources{
      request.readsImages ? nullptr : &planning.learned.trace, planning.learned.sections.paths,
      planning.device ? &*planning.device : nullptr, std::nullopt, watchOf(session)};
  if (chosen.reason)
    sources.widths = chosen.reason->widths;
  std::string moduleText;
  auto plan = artifacts.plan(chosen.assignment,
                             {.budgets = request.passes.budgets,
                              .sources = sources,
                              .measured = std::move(chosen.measured),
                              .widthsBy = chosen.reason ? widthsBy(*chosen.reason) : "",
                              .searchRuns = planning.searchRuns,
                              .moduleText = request.modulePath.empty() ? nullptr : &moduleText,
                              .hasLowCopies = true});
  if (plan.status().code() == StatusCode::kInvalidInput && !request.passes.budgets.empty()) {
    work.keep();
    return invalidInput(plan.status().message(), "; with --resume and another --memory, ",
                        work.path(), " saves most of the time");
  }
  MOERT_RETURN_IF_ERROR(plan.status());
  if (planning.device) // Relative budgets included: their bytes are known now.
    warnings.check(request.passes.budgets, plan->artifact.plans, *planning.device, session);
  plan->paths = planning.learned.sections.paths;
  plan->trace = planning.learned.sections.trace;
  markCheckpoint(hash, plan->artifact);
  EmitOptions options;
  options.outputPath = path;
  options.resume = request.resume;
  options.startsOverIfRefused = true; // The expensive results are in the work directory.
  options.progress = session.progress;
  std::string plans = plannedText(plan->artifact.plans);
  if (request.passes.lowCopyBits != 0 && !hasLowCopies(plan->artifact))
    sayTo(session, strCat("no expert has a low copy: none has more than ",
                          request.passes.lowCopyBits, " bits in all its matrices"));
  if (!request.modulePath.empty())
    MOERT_RETURN_IF_ERROR(writeModule(moduleText, request.modulePath));
  MOERT_RETURN_IF_ERROR(artifacts.emit(std::move(plan).value(), chosen.assignment, options));
  return plans;
}

static void sayWritten(const std::string &path, const std::string &plans, const Session &session) {
  std::error_code ignored;
  sayTo(session, strCat("wrote ", path, ", ",
                        formatBytes(std::filesystem::file_size(path, ignored)), plans));
}

/// Learns the trace and the paths of decoding; a vision model decodes no tokens, so it has neither.
static Status learnFor(const AccurateCompileRequest &request, const CalibrationProfile &profile,
                       const PooledArtifacts &artifacts, PlanMaterial &planning) {
  if (request.readsImages)
    return {};
  MOERT_ASSIGN_OR_RETURN(planning.learned,
                         learn(profile, artifacts.fewestExpertBytes(), planning.searchRuns));
  return {};
}

/// Writes the artifact of experts at the request's one width. Returns what its plans are.
static Result<std::string>
emitAtWidth(const AccurateCompileRequest &request, const CompileInputs &inputs,
            const CalibrationProfile &profile, PooledArtifacts &artifacts, PlanMaterial &planning,
            MemoryWarnings &warnings, WorkDirectory &work, const Session &session) {
  MOERT_RETURN_IF_ERROR(artifacts.finish(profile));
  MOERT_RETURN_IF_ERROR(learnFor(request, profile, artifacts, planning));
  ChosenWidths chosen;
  chosen.assignment = uniformAssignment(artifacts.items().input().problem, 0);
  return emitOutput(request, inputs.hash, artifacts, planning, std::move(chosen),
                    emittedPathOf(request), warnings, work, session);
}

/// Gives the artifact, which is in the work directory, its quick loss and its name.
static Status finishWithQuickLoss(const QuickLoss &quick, const std::string &path,
                                  const std::string &outputPath, const std::string &plans,
                                  const Session &session) {
  MOERT_RETURN_IF_ERROR(addQuickLoss(path, quick));
  std::error_code error;
  std::filesystem::rename(path, outputPath, error);
  if (error)
    return failed("cannot rename '", path, "' to '", outputPath, "': ", error.message());
  sayWritten(outputPath, plans, session);
  sayTo(session, strCat("quick loss: ", quickLossText(quick), "; the terms: ", kQualityDocs));
  return {};
}

/// Everything besides the experts' width that decides a quick loss.
static std::string quickLossKey(const AccurateCompileRequest &request, const CheckpointHash &hash,
                                const CalibrationInfo &info) {
  const mlir::moe::CompileOptions &passes = request.passes;
  return strCat(formatChecksum(hash.sample), " ",
                formatChecksum(checksum64(std::as_bytes(std::span(info.tokens)))), " ",
                request.seed, " ", nameOf(request.method), " ", int(passes.residentBits), " ",
                int(passes.headBits), " ", int(passes.kvBits));
}

static std::string missedStep(uint32_t bits) {
  return strCat("quick-loss-missed-", bits);
}

/// Without a target: experts of the given width, or of the first whose quick loss meets the aim. A
/// resumed run does not measure again a width that missed it.
static Status compileAtWidth(AccurateCompileRequest request, CompileInputs &inputs,
                             const CompileTexts &texts, const std::string &referencePath,
                             MemoryWarnings &warnings, WorkDirectory &work, WholeProgress &progress,
                             const Session &session) {
  const auto artifactsAtWidth = [&] {
    return PooledArtifacts::create(request, inputs.model, profilePathOf(request, work), work.path(),
                                   session);
  };
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<PooledArtifacts> artifacts, artifactsAtWidth());
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<CalibrationProfile> profile,
                         calibrateForSearch(request, inputs, texts, referencePath,
                                            keepsProfileRows(request) ? nullptr : artifacts.get(),
                                            work, session));
  PlanMaterial planning;
  planning.device = std::move(inputs.device);
  const std::string key = quickLossKey(request, inputs.hash, profile->info());
  while (request.isWidthRaised && work.isMarked(missedStep(*request.bits), key))
    ++*request.bits;
  for (;; ++*request.bits) {
    MOERT_ASSIGN_OR_RETURN(artifacts, artifactsAtWidth());
    MOERT_ASSIGN_OR_RETURN(
        const std::string plans,
        emitAtWidth(request, inputs, *profile, *artifacts, planning, warnings, work, session));
    if (!hasQuickLoss(request)) { // With a profile alone there is no reference.
      sayWritten(request.outputPath, plans, session);
      sayTo(session, kUnmeasuredText);
      return {};
    }
    const std::string path = emittedPathOf(request);
    MOERT_ASSIGN_OR_RETURN(const QuickLoss quick,
                           measureQuickLoss(request, inputs.model, inputs.hash, referencePath, path,
                                            work, session, [&](const QuickLoss &first) {
                                              progress.foresee(chanceOfWider(*request.bits, first));
                                            }));
    const std::optional<uint32_t> wider =
        request.isWidthRaised ? widthAfter(*request.bits, quick) : std::nullopt;
    if (!wider)
      return finishWithQuickLoss(quick, path, request.outputPath, plans, session);
    MOERT_RETURN_IF_ERROR(work.mark(missedStep(*request.bits), key));
    sayTo(session, missedAimText(*request.bits, *wider, quick));
    progress.foresee(1);
  }
}

/// All stages after the inputs; each takes the results of those before it.
static Status runStages(const AccurateCompileRequest &request, CompileInputs inputs,
                        MemoryWarnings &warnings, WorkDirectory &work, WholeProgress &progress,
                        const Session &session) {
  std::string referencePath;
  if (hasReference(request)) {
    Session quiet = session;
    quiet.say = {};
    MOERT_ASSIGN_OR_RETURN(referencePath,
                           makeReference({request.checkpointDirectory,
                                          formatChecksum(inputs.hash.sample), request.threads},
                                         work, quiet));
  }
  if (hasReference(request))
    MOERT_RETURN_IF_ERROR(tellCosts(request, inputs, referencePath, work, progress, session));
  MOERT_ASSIGN_OR_RETURN(const CompileTexts texts,
                         completeTexts(request, inputs, referencePath, work, session));
  if (!request.hasTarget())
    return compileAtWidth(request, inputs, texts, referencePath, warnings, work, progress, session);
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<PooledArtifacts> artifacts,
                         PooledArtifacts::create(request, inputs.model,
                                                 profilePathOf(request, work), work.path(),
                                                 session));
  MOERT_ASSIGN_OR_RETURN(
      const std::unique_ptr<CalibrationProfile> profile,
      calibrateForSearch(request, inputs, texts, referencePath, artifacts.get(), work, session));
  MOERT_ASSIGN_OR_RETURN(
      const SearchMaterial material,
      chooseSearchMaterial(request, inputs.hash, texts, profile->info(), session));
  MOERT_ASSIGN_OR_RETURN(
      const AcceptanceTurn turn,
      takeAcceptanceLevels(request, inputs.hash, inputs.deviceHash, material, work, session));
  MOERT_RETURN_IF_ERROR(artifacts->finish(*profile));
  // One trace, for timing all candidates and for the artifact: as long as the fewest bits allow.
  PlanMaterial planning;
  planning.device = std::move(inputs.device);
  // Without a calibration text the search reads what calibration has read.
  if (!texts.calibration.empty())
    planning.searchRuns = seenBySearch(material.windows, request.amounts.windowTokens).runs();
  MOERT_RETURN_IF_ERROR(learnFor(request, *profile, *artifacts, planning));
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<ArtifactTimes> times,
                         ArtifactTimes::create(planning, *artifacts, request.passes, session.stop));
  MOERT_ASSIGN_OR_RETURN(ChosenWidths chosen,
                         chooseWidths(request, material, turn, profile->info(), *artifacts,
                                      times.get(), referencePath, work, session));
  MOERT_ASSIGN_OR_RETURN(const std::string plans,
                         emitOutput(request, inputs.hash, *artifacts, planning, std::move(chosen),
                                    request.outputPath, warnings, work, session));
  sayWritten(request.outputPath, plans, session);
  return {};
}

Status compileAccurately(const AccurateCompileRequest &asked, const Session &session) {
  MOERT_RETURN_IF_ERROR(checkAccurateRequest(asked));
  MOERT_ASSIGN_OR_RETURN(ImportedModel model,
                         importCheckpoint(asked.checkpointDirectory, session.say));
  AccurateCompileRequest request = asked;
  if (model.description.patches) {
    MOERT_ASSIGN_OR_RETURN(request, requestOfImages(asked, model.description.modelType));
  } else {
    MOERT_RETURN_IF_ERROR(requireDecoder(model.description, asked.checkpointDirectory));
  }
  MOERT_RETURN_IF_ERROR(checkSparesCheckpoint(asked.outputPath, model.checkpoint));
  MOERT_RETURN_IF_ERROR(checkModulePath(asked.modulePath, asked.outputPath, model.checkpoint));
  MemoryWarnings warnings;
  MOERT_ASSIGN_OR_RETURN(CompileInputs inputs,
                         readCompileInputs(request, std::move(model), warnings, session));
  // The plans of candidates need no device; the last ones get it with the trace (emitOutput()).
  request.passes.device.clear();
  const std::array beside = {OutputFile::partialPathOf(request.outputPath),
                             Journal::pathOf(request.outputPath)};
  std::error_code ignored;
  // Without a work directory the files are another command's.
  if (request.resume &&
      !std::filesystem::exists(WorkDirectory::pathOf(request.outputPath), ignored))
    MOERT_RETURN_IF_ERROR(refuseLeftEmission(request.outputPath, LeftWork::kRefuse));
  MOERT_ASSIGN_OR_RETURN(
      WorkDirectory work,
      WorkDirectory::open(request.outputPath, leftWorkOf(request.resume, request.restart), beside));
  for (const std::string &note : request.notes)
    sayTo(session, note);
  // Files in the work directory are closed when the stages return: some file systems cannot remove
  // a directory whose files are open.
  WholeProgress progress(session.progress, stepsOf(request));
  Status status = runStages(request, std::move(inputs), warnings, work, progress,
                            {&progress, session.stop, session.say});
  return work.keepAfter(std::move(status), beside);
}

} // namespace moec
