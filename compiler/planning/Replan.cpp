#include "compiler/planning/Replan.h"

#include "compiler/emit/EmitArtifact.h"
#include "compiler/ir/PlanAttrs.h"
#include "compiler/pipeline/IrContext.h"
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
#include "compiler/profile/TracedRouting.h"
#include "compiler/session/WorkDirectory.h"
#include "profiles/DeviceFile.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/format/PlanName.h"

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

namespace {

/// The request's inputs and the module that is planned.
struct Draft {
  explicit Draft(const Session &session) : ir(session) {}

  std::vector<Preset> presets;
  PlannedArtifact planned;
  std::optional<KnownRouting> routing; // With a device.
  std::optional<StoredArtifact> stored;
  IrContext ir;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace

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

/// Presets that prefetch need a trace, a device and a program that predicts.
static Status checkPresets(const Draft &draft) {
  const PlannedArtifact &planned = draft.planned;
  MOERT_RETURN_IF_ERROR(
      checkPrefetching(draft.presets, planned.trace.has_value(), planned.device.has_value()));
  for (Preset preset : draft.presets)
    if (predictorOf(preset).predictor != Predictor::kOff && planned.facts.isPredicted.size() > 1 &&
        !planned.facts.isPredicted[1][0])
      return invalidInput("preset ", presetName(preset),
                          " prefetches experts, for which the "
                          "artifact's program has no predict instruction: compile it again");
  return {};
}

/// Reads the artifact into the draft's module.
static Status readDraft(const ReplanRequest &request, Draft &draft, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(draft.presets, presetsOf(request));
  if (request.hobbitDepth != 0 && std::ranges::count(draft.presets, Preset::kHobbit) == 0)
    return invalidInput("found --prefetch-depth ", request.hobbitDepth,
                        " without the preset that it belongs to, expected --preset hobbit")
        .withContext(request.artifactPath);
  MOERT_ASSIGN_OR_RETURN(StoredArtifact stored, StoredArtifact::open(request.artifactPath));
  draft.stored.emplace(std::move(stored));
  MOERT_ASSIGN_OR_RETURN(draft.planned, readInputs(request, draft.stored->source(),
                                                   draft.stored->artifact(), session));
  MOERT_ASSIGN_OR_RETURN(draft.module, buildModule(draft.ir, *draft.stored));
  return {};
}

/// Reports that a requested search was not possible.
static void sayUnsearched(const ReplanRequest &request, const Draft &draft,
                          const Session &session) {
  const bool isSearchAsked = std::ranges::count(draft.presets, Preset::kAuto) > 0;
  if (session.say && isSearchAsked && !draft.planned.trace)
    session.say(strCat("plans follow rules and are not searched, as ",
                       request.profilePath.empty() ? request.artifactPath : request.profilePath,
                       " holds no trace: moec compile --calibration-text writes one into an "
                       "artifact, --calibration takes one from a profile"));
}

/// The accuracy model of preset swapmoe.
static Status profileVirtualExperts(const ReplanRequest &request, const WorkDirectory &work,
                                    std::span<const BudgetPlan> all, Draft &draft,
                                    const Session &session) {
  std::vector<BudgetPlan> budgets;
  std::ranges::copy_if(all, std::back_inserter(budgets),
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

/// Checks and warns, then reads or measures the facts that the module does not state. work: for
/// requests that measure losses.
static Status completeFacts(const ReplanRequest &request, const WorkDirectory *work,
                            std::span<const BudgetPlan> budgets, Draft &draft,
                            const Session &session) {
  PlannedArtifact &planned = draft.planned;
  MemoryWarnings warnings;
  for (const BudgetPlan &budget : budgets)
    if (planned.device)
      warnings.check(budget.budget, budget.budgetBytes, *planned.device, session);
  sayUnsearched(request, draft, session);
  MOERT_RETURN_IF_ERROR(checkPresets(draft));
  if (request.miss.isSearched || std::ranges::any_of(draft.presets, usesVirtualExperts)) {
    MOERT_ASSIGN_OR_RETURN(
        planned.facts.expertNorms,
        expertNormsOf(draft.stored->source(), planned.artifact, availableCores(), session));
  }
  if (planned.trace && planned.device) {
    MOERT_ASSIGN_OR_RETURN(draft.routing,
                           routingOf(*planned.trace, planned.learned.paths, planned.facts));
  }
  if (work && !request.miss.profileFiles.empty())
    return profileVirtualExperts(request, *work, budgets, draft, session);
  return {};
}

/// Runs the passes that plan the module.
static Status plan(const ReplanRequest &request, const WorkDirectory *work, Draft &draft,
                   const Session &session) {
  PlannedArtifact &planned = draft.planned;
  Status completed; // A diagnostic has no code.
  mlir::moe::CompileOptions options;
  options.budgets = request.budgets;
  options.presets = request.presets;
  options.context = request.context;
  mlir::moe::PlanSources &sources = options.sources;
  sources.trace = planned.trace ? &*planned.trace : nullptr;
  sources.paths = planned.learned.paths;
  sources.device = planned.device ? &*planned.device : nullptr;
  sources.hobbitDepth = request.hobbitDepth;
  sources.watch = watchOf(session);
  sources.complete = [&](ModelFacts &facts, std::span<const BudgetPlan> budgets) {
    planned.facts = std::move(facts);
    completed = completeFacts(request, work, budgets, draft, session);
    facts = planned.facts;
    return completed;
  };
  const Status passed = runPasses(draft.ir, *draft.module, options);
  MOERT_RETURN_IF_ERROR(completed.withContext(request.artifactPath));
  MOERT_RETURN_IF_ERROR(passed.withContext(request.artifactPath));
  planned.artifact.plans = mlir::moe::plansOf(*draft.module);
  return {};
}

Result<PlannedArtifact> planArtifact(const ReplanRequest &request, const Session &session) {
  Draft draft(session);
  MOERT_RETURN_IF_ERROR(readDraft(request, draft, session));
  MOERT_RETURN_IF_ERROR(plan(request, nullptr, draft, session));
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
  Draft draft(session);
  MOERT_RETURN_IF_ERROR(readDraft(request, draft, session));
  MOERT_ASSIGN_OR_RETURN(const ReadTexts read, textsReadBy(request, draft, session));
  MOERT_RETURN_IF_ERROR(plan(request, work, draft, session));
  std::vector<Plan> &plans = draft.planned.artifact.plans;
  if (work) {
    MOERT_ASSIGN_OR_RETURN(plans,
                           decideMissRules(request.miss, request.artifactPath, plans,
                                           missSimulationOf(draft, session), read, *work, session));
  }
  for (Plan &made : plans)
    dropUnusedPool(made);
  mlir::moe::setPlans(*draft.module, plans);
  MOERT_ASSIGN_OR_RETURN(EmitPlan emitted, planOf(draft.ir, *draft.module));
  emitted.paths = std::move(draft.planned.learned.paths);
  emitted.trace = std::move(draft.planned.learned.trace);
  EmitOptions options;
  options.outputPath = request.outputPath;
  options.threads = request.miss.threads;
  options.isResumable = false;
  options.stop = session.stop;
  options.progress = session.progress;
  MOERT_ASSIGN_OR_RETURN(const EmitResult result, emitArtifact(emitted, *draft.stored, options));
  sayTo(session, strCat("wrote ", request.outputPath, ", ", formatBytes(result.fileBytes),
                        plannedText(plans)));
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
