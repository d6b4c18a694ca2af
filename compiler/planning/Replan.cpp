#include "compiler/planning/Replan.h"

#include "compiler/emit/ArtifactFacts.h"
#include "compiler/plan/MakePlans.h"
#include "compiler/plan/MissSearch.h"
#include "compiler/plan/PlanAcceptance.h"
#include "compiler/plan/PlanReasons.h"
#include "compiler/planning/CheckpointMark.h"
#include "compiler/planning/DeviceMemory.h"
#include "compiler/planning/ExpertNorms.h"
#include "compiler/planning/LearnedSections.h"
#include "compiler/planning/PlanningSession.h"
#include "compiler/planning/ReadTexts.h"
#include "compiler/planning/VirtualExpertProfile.h"
#include "compiler/planning/WeightsCopy.h"
#include "compiler/profile/TracedRouting.h"
#include "compiler/session/WorkDirectory.h"
#include "profiles/DeviceFile.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/format/FilePrefix.h"
#include "runtime/format/PlanName.h"
#include "runtime/format/Writer.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

using namespace moert;

namespace moec {

static Result<std::vector<Preset>> presetsOf(const ReplanRequest &request) {
  std::vector<Preset> presets;
  for (const std::string &name : request.presets) {
    MOERT_ASSIGN_OR_RETURN(Preset preset, presetOf(name));
    presets.push_back(preset);
  }
  if (presets.empty())
    presets.push_back(Preset::kAuto);
  return presets;
}

/// The reason for the widths, which replanning keeps.
static std::optional<WidthsReason> widthsReason(const Artifact &artifact) {
  const std::vector<PlanReason> &reasons = artifact.plans.front().reasons;
  const auto found = std::ranges::find(reasons, kWidthsReason, &PlanReason::decision);
  return found == reasons.end() ? std::nullopt : std::optional(WidthsReason{*found});
}

static Result<PlannedUse> useOf(const ReplanRequest &request, const Artifact &artifact,
                                bool hasPaths) {
  PlannedUse use;
  use.contextTokens = request.context ? request.context : artifact.plans.front().contextTokens;
  use.contextBlock = kKvBlockTokens;
  use.hasPaths = hasPaths;
  use.hobbitDepth = request.hobbitDepth;
  MOERT_ASSIGN_OR_RETURN(use.presets, presetsOf(request));
  if (use.hobbitDepth != 0 && std::ranges::count(use.presets, Preset::kHobbit) == 0)
    return invalidInput("found --prefetch-depth ", use.hobbitDepth,
                        " without the preset that it belongs to, expected --preset hobbit");
  if (use.contextTokens > artifact.model.maxPositions)
    return invalidInput("found a context of ", use.contextTokens,
                        " tokens, expected at most the model's ", artifact.model.maxPositions,
                        " positions");
  return use;
}

namespace {

/// What is known before the slow part begins.
struct Draft {
  PlannedArtifact planned; // Without plans.
  PlannedUse use;
  std::vector<BudgetPlan> budgets;
  std::optional<KnownRouting> routing; // With a device.
  uint64_t weightsEnd = 0;             // In the new artifact.
};

} // namespace

/// The pools of the requested budgets, in which the model fits.
static Result<std::vector<BudgetPlan>> budgetsOf(const ReplanRequest &request, const Draft &draft) {
  const ModelFootprint &footprint = draft.planned.facts.footprint;
  MOERT_ASSIGN_OR_RETURN(std::vector<BudgetPlan> budgets,
                         planBudgets(footprint, request.budgets, draft.use));
  const ModelFootprint planned = withPlans(footprint, budgets.size(), draft.use.presets);
  for (const BudgetPlan &budget : budgets)
    MOERT_RETURN_IF_ERROR(accountOf(planned, budget, draft.use).status());
  return budgets;
}

/// Decodes the section, if there is one. path: the file that it is from, for messages.
static Status readTrace(const std::string &path, PlannedArtifact &inputs) {
  if (inputs.learned.trace.empty())
    return {};
  auto trace = readTraceOf(inputs.artifact, inputs.learned.trace);
  if (!trace.isOk())
    return trace.status().withContext(path);
  inputs.trace = std::move(trace).value();
  return {};
}

/// The unchanged artifact, with the planning inputs from the request's files.
static Result<PlannedArtifact> readInputs(const ReplanRequest &request, const ByteSource &source,
                                          const Artifact &artifact, const Session &session) {
  PlannedArtifact inputs;
  inputs.artifact = artifact;
  if (!request.devicePath.empty()) {
    MOERT_ASSIGN_OR_RETURN(inputs.device, readDeviceFile(request.devicePath));
  }
  MOERT_ASSIGN_OR_RETURN(inputs.learned, readLearnedSections(source, artifact));
  MOERT_RETURN_IF_ERROR(readTrace(request.artifactPath, inputs));
  inputs.readRuns = keptRuns(artifact, inputs.trace);
  if (request.profilePath.empty())
    return inputs;
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<CalibrationProfile> profile,
                         CalibrationProfile::open(request.profilePath));
  MOERT_RETURN_IF_ERROR(checkSameCheckpoint(artifact, request.artifactPath,
                                            profile->info().checkpointHash, request.profilePath,
                                            session));
  MOERT_ASSIGN_OR_RETURN(Learned learned,
                         learn(*profile, expertPayloadBytes(artifact), inputs.readRuns));
  inputs.learned = std::move(learned.sections);
  MOERT_RETURN_IF_ERROR(readTrace(request.profilePath, inputs));
  return inputs;
}

static Status writeSection(const std::vector<std::byte> &section, uint64_t offset,
                           OutputFile &output) {
  MOERT_RETURN_IF_ERROR(output.writeAt(offset, section));
  const uint64_t end = offset + section.size();
  return output.writeAt(end, std::vector<std::byte>(roundUp(end, kSectionAlignment) - end));
}

// Writes what follows the weights, and the first page, which points to it.
static Status finishArtifact(const PlannedArtifact &planned, const SealedArtifact &sealed,
                             OutputFile &output) {
  const Artifact &artifact = planned.artifact;
  MOERT_RETURN_IF_ERROR(writeSection(planned.learned.paths, artifact.pathsOffset, output));
  MOERT_RETURN_IF_ERROR(writeSection(planned.learned.trace, artifact.traceOffset, output));
  MOERT_RETURN_IF_ERROR(output.writeAt(sealed.manifestOffset, sealed.manifest));
  MOERT_RETURN_IF_ERROR(output.writeAt(0, sealed.prefix));
  return output.commit();
}

/// Presets that prefetch need a trace, a device and a program that predicts.
static Status checkPresets(const Draft &draft) {
  const PlannedArtifact &planned = draft.planned;
  MOERT_RETURN_IF_ERROR(
      checkPrefetching(draft.use.presets, planned.trace.has_value(), planned.device.has_value()));
  for (Preset preset : draft.use.presets)
    if (predictorOf(preset).predictor != Predictor::kOff &&
        draft.planned.facts.isPredicted.size() > 1 && !draft.planned.facts.isPredicted[1][0])
      return invalidInput("preset ", presetName(preset),
                          " prefetches experts, for which the "
                          "artifact's program has no predict instruction: compile it again");
  return {};
}

/// Makes all checks that can fail early; makePlans() does the slow part.
static Result<Draft> draftPlans(const ReplanRequest &request, const ByteSource &source,
                                const Session &session) {
  Draft draft;
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::open(request.artifactPath));
  MOERT_ASSIGN_OR_RETURN(draft.planned, readInputs(request, source, model->artifact(), session));
  const LearnedSections &learned = draft.planned.learned;
  draft.planned.facts = factsOf(model->artifact(), plannedFootprintOf(model->artifact()));
  Result<PlannedUse> use = useOf(request, model->artifact(), !learned.paths.empty());
  if (!use.isOk())
    return use.status().withContext(request.artifactPath);
  draft.use = std::move(use).value();
  Result<std::vector<BudgetPlan>> budgets = budgetsOf(request, draft);
  if (!budgets.isOk())
    return budgets.status().withContext(request.artifactPath);
  draft.budgets = std::move(budgets).value();
  MemoryWarnings warnings;
  for (const BudgetPlan &budget : draft.budgets)
    if (draft.planned.device)
      warnings.check(budget.budget, budget.budgetBytes, *draft.planned.device, session);
  draft.weightsEnd = placeLearnedSections(learned, draft.planned.artifact);
  return draft;
}

/// Reports that a requested search was not possible.
static void sayUnsearched(const ReplanRequest &request, const Draft &draft,
                          const Session &session) {
  const bool isSearchAsked = std::ranges::count(draft.use.presets, Preset::kAuto) > 0;
  if (session.say && isSearchAsked && !draft.planned.trace)
    session.say(strCat("plans follow rules and are not searched, as ",
                       request.profilePath.empty() ? request.artifactPath : request.profilePath,
                       " holds no trace: moec compile --calibration-text writes one into an "
                       "artifact, --calibration takes one from a profile"));
}

/// The accuracy model of preset swapmoe.
static Status profileVirtualExperts(const ReplanRequest &request, const WorkDirectory &work,
                                    Draft &draft, const Session &session) {
  std::vector<BudgetPlan> budgets;
  std::ranges::copy_if(draft.budgets, std::back_inserter(budgets),
                       [](const BudgetPlan &budget) { return budget.preset == Preset::kSwapMoe; });
  ModelFacts &facts = draft.planned.facts;
  EvaluationRequest texts = request.miss.texts;
  texts.files = request.miss.profileFiles;
  PlanJudge judge(
      {request.artifactPath, request.miss.referencePath, texts, work, request.miss.threads},
      session);
  MOERT_RETURN_IF_ERROR(judge.open());
  PlanProblem inputs = {.recordBytes = facts.recordBytes,
                        .topK = facts.topK,
                        .expertNorms = facts.expertNorms,
                        .pageBytes = facts.footprint.pageBytes};
  std::optional<PlanInputs> known;
  std::optional<PlanProblem> problem;
  if (draft.routing) {
    known.emplace(facts, *draft.routing, *draft.planned.device);
    problem = known->problem(largestPoolPages(facts.footprint.cache));
    inputs.trace = problem->trace;
    inputs.costs = problem->costs;
    inputs.reads = problem->reads;
  }
  const std::vector<Plan> configurations =
      randomConfigurations(facts, inputs, budgets, kProfiledConfigurations, 0);
  MOERT_ASSIGN_OR_RETURN(facts.accuracy, profileAccuracy(judge, facts, configurations, session));
  return {};
}

/// work: for requests that measure losses.
static Status plan(const ReplanRequest &request, const ByteSource &source,
                   const WorkDirectory *work, Draft &draft, const Session &session) {
  sayUnsearched(request, draft, session);
  PlannedArtifact &planned = draft.planned;
  MOERT_RETURN_IF_ERROR(checkPresets(draft).withContext(request.artifactPath));
  if (request.miss.isSearched || std::ranges::any_of(draft.use.presets, usesVirtualExperts)) {
    auto norms = expertNormsOf(source, planned.artifact, availableCores(), session);
    if (!norms.isOk())
      return norms.status().withContext(request.artifactPath);
    planned.facts.expertNorms = std::move(norms).value();
  }
  std::optional<KnownRouting> &routing = draft.routing;
  if (planned.trace && planned.device) {
    Result<KnownRouting> known =
        routingOf(*planned.trace, planned.learned.paths, draft.planned.facts);
    if (!known.isOk())
      return known.status().withContext(request.artifactPath);
    routing = std::move(known).value();
  }
  if (work && !request.miss.profileFiles.empty()) {
    MOERT_RETURN_IF_ERROR(profileVirtualExperts(request, *work, draft, session));
  }
  Result<std::vector<Plan>> plans =
      makePlans(draft.planned.facts, draft.budgets, draft.use,
                {routing ? &*routing : nullptr, planned.device ? &*planned.device : nullptr},
                widthsReason(planned.artifact), watchOf(session));
  if (!plans.isOk())
    return plans.status().withContext(request.artifactPath);
  planned.artifact.plans = std::move(plans).value();
  return {};
}

Result<PlannedArtifact> planArtifact(const ReplanRequest &request, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(FileSource source, FileSource::open(request.artifactPath));
  MOERT_ASSIGN_OR_RETURN(Draft draft, draftPlans(request, source, session));
  MOERT_RETURN_IF_ERROR(plan(request, source, nullptr, draft, session));
  return std::move(draft.planned);
}

/// The plan with a rung's settings. Reasons of decisions that were made again are replaced.
static Plan withRung(Plan plan, const MissRung &rung, const ModelFacts &facts) {
  takeSettings(rung.settings, facts.expertNorms, plan);
  for (const PlanReason &made : rung.decisions)
    eraseReasons(made.decision, plan.reasons);
  if (!prefetchesAnything(plan.prefetches))
    eraseReasons(kUnprefetchedLayers, plan.reasons);
  plan.reasons.insert(plan.reasons.end(), rung.decisions.begin(), rung.decisions.end());
  return plan;
}

/// Simulates the draft's plans with miss rules. The draft and the session outlive it.
static MissSimulation missSimulationOf(const Draft &draft, const Session &session) {
  MissSimulation simulation;
  simulation.forecast = [&draft, &session](const Plan &plan) -> Result<std::optional<Forecast>> {
    if (!draft.routing)
      return std::optional<Forecast>();
    if (plan.miss.changesDecoding() && draft.routing->scores.empty()) {
      sayTo(session, strCat(nameWithRule(plan),
                            ": no forecast, as the trace has no scores of the routers; calibrate "
                            "again with this version"));
      return std::optional<Forecast>();
    }
    const PlanInputs inputs(draft.planned.facts, *draft.routing, *draft.planned.device);
    MOERT_ASSIGN_OR_RETURN(
        Forecast forecast,
        forecastPlan(inputs, *draft.routing, *draft.planned.device, settingsOf(plan)));
    return std::optional(std::move(forecast));
  };
  simulation.search = [&draft, &session](const Plan &plan) -> Result<LossyLadders> {
    if (!draft.routing)
      return invalidInput("--miss auto simulates rules, expected --device and an artifact that was "
                          "compiled with a calibration, or --calibration");
    const PlanInputs inputs(draft.planned.facts, *draft.routing, *draft.planned.device);
    MOERT_ASSIGN_OR_RETURN(const MissLadders found,
                           searchMisses(inputs.problem(poolPagesOf(plan)), settingsOf(plan),
                                        availableCores(), session.stop));
    LossyLadders ladders{found.waitingNs, {}, found.tried};
    for (const std::vector<MissRung> &ladder : found.ladders) {
      std::vector<LossyPlan> &plans = ladders.ladders.emplace_back();
      for (const MissRung &rung : ladder)
        plans.push_back({withRung(plan, rung, draft.planned.facts), rung.tokenNs});
    }
    return ladders;
  };
  return simulation;
}

/// What no test of a loss may be of.
static Result<ReadTexts> textsReadBy(const ReplanRequest &request, const Draft &draft,
                                     const Session &session) {
  if (!request.miss.target.isGiven())
    return ReadTexts();
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, Model::open(request.artifactPath));
  return readTextsOf(
      *model, draft.planned.readRuns,
      {request.miss.calibrationTexts, request.miss.texts.documentSeparator, request.profilePath},
      session);
}

/// Makes and writes the plans of a checked request. work: for requests that measure losses.
static Status writePlans(const ReplanRequest &request, const WorkDirectory *work,
                         const Session &session) {
  MOERT_ASSIGN_OR_RETURN(FileSource source, FileSource::open(request.artifactPath));
  MOERT_ASSIGN_OR_RETURN(Draft draft, draftPlans(request, source, session));
  Artifact &artifact = draft.planned.artifact;
  // Plans may use the newest fields.
  artifact.minorVersion = std::max(artifact.minorVersion, kFormatMinor);
  // The new plans may take a few KiB more or less.
  const uint64_t expectedBytes =
      draft.weightsEnd + artifact.pathsBytes + artifact.traceBytes + artifact.manifestBytes;
  MOERT_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create(request.outputPath, expectedBytes));
  MOERT_ASSIGN_OR_RETURN(const ReadTexts read, textsReadBy(request, draft, session));
  WeightsCopy weights(source, draft.weightsEnd, output, session.stop);
  MOERT_RETURN_IF_ERROR(plan(request, source, work, draft, session));
  if (work) {
    MOERT_ASSIGN_OR_RETURN(artifact.plans,
                           decideMissRules(request.miss, request.artifactPath, artifact.plans,
                                           missSimulationOf(draft, session), read, *work, session));
  }
  for (Plan &made : artifact.plans)
    dropUnusedPool(made);
  MOERT_ASSIGN_OR_RETURN(SealedArtifact sealed, sealArtifact(artifact));
  MOERT_RETURN_IF_ERROR(weights.wait(session));
  MOERT_RETURN_IF_ERROR(finishArtifact(draft.planned, sealed, output));
  sayTo(session, strCat("wrote ", request.outputPath, ", ", formatBytes(artifact.fileBytes),
                        plannedText(artifact.plans)));
  return {};
}

static Status writeMeasuredPlans(const ReplanRequest &request, std::span<const std::string> inputs,
                                 const Session &session) {
  MOERT_RETURN_IF_ERROR(WorkDirectory::checkHoldsNone(request.outputPath, inputs));
  MOERT_ASSIGN_OR_RETURN(
      WorkDirectory work,
      WorkDirectory::open(request.outputPath, leftWorkOf(request.resume, request.restart)));
  return work.keepAfter(writePlans(request, &work, session), {});
}

Status replanArtifact(const ReplanRequest &request, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<Preset> presets, presetsOf(request));
  MOERT_RETURN_IF_ERROR(checkMissRequest(request.miss, presets));
  std::vector<std::string> inputs = {request.artifactPath, request.devicePath, request.profilePath,
                                     request.miss.referencePath};
  for (const std::vector<std::string> *files :
       {&request.miss.texts.files, &request.miss.profileFiles, &request.miss.calibrationTexts})
    inputs.insert(inputs.end(), files->begin(), files->end());
  MOERT_RETURN_IF_ERROR(checkReplacesNone(request.outputPath, inputs));
  if (measuresLosses(request.miss, presets))
    return writeMeasuredPlans(request, inputs, session);
  if (request.resume)
    return invalidInput(
        "--resume continues with losses that were measured, expected --miss RULE, a preset "
        "that loses accuracy (hobbit, swapmoe, pruning), or fate with --accuracy-loss or "
        "--accuracy-quantile");
  MOERT_ASSIGN_OR_RETURN(std::optional<WorkDirectory> left,
                         WorkDirectory::findLeft(request.outputPath, inputs));
  if (left)
    sayTo(session, left->leftText());
  return writePlans(request, nullptr, session);
}

} // namespace moec
