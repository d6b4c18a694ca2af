#include "compiler/planning/Replan.h"

#include "compiler/emit/PlanReasonOf.h"
#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/BudgetPlan.h"
#include "compiler/plan/Presets.h"
#include "compiler/planning/CheckpointMark.h"
#include "compiler/planning/DeviceMemory.h"
#include "compiler/planning/LearnedSections.h"
#include "compiler/planning/RefinePlans.h"
#include "compiler/planning/WeightsCopy.h"
#include "compiler/session/WorkDirectory.h"
#include "profiles/DeviceFile.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"
#include "runtime/engine/Footprint.h"
#include "runtime/format/FilePrefix.h"
#include "runtime/format/Writer.h"

#include <algorithm>
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

// The reasons for the widths, which replanning keeps.
static std::vector<PlanReason> widthsReasons(const Artifact &artifact) {
  std::vector<PlanReason> reasons = artifact.plans.front().reasons;
  std::erase_if(reasons, [](const PlanReason &made) { return made.decision != kWidthsReason; });
  return reasons;
}

/// The reasons of a plan that follows its preset's rules; a search replaces them with its own.
static std::vector<PlanReason> draftReasons(const Artifact &artifact, Preset preset,
                                            const Plan &plan) {
  std::vector<PlanReason> reasons = widthsReasons(artifact);
  for (const PlanDecision &decision : {evictionDecision(preset, plan.rules.eviction),
                                       allotmentDecision(preset), noPrefetchDecision(preset)})
    reasons.push_back(planReasonOf(decision));
  return reasons;
}

// Uses only the budgets and the presets' rules; refinePlans() does the rest.
static Result<std::vector<Plan>> plansFor(const ReplanRequest &request, const Model &model,
                                          uint64_t pathsBytes) {
  const Artifact &artifact = model.artifact();
  PlannedUse use;
  use.contextTokens = request.context ? request.context : artifact.plans.front().contextTokens;
  use.contextBlock = kKvBlockTokens;
  use.hasPaths = pathsBytes > 0;
  MOERT_ASSIGN_OR_RETURN(use.presets, presetsOf(request));
  if (use.contextTokens > artifact.model.maxPositions)
    return invalidInput("found a context of ", use.contextTokens,
                        " tokens, expected at most the model's ", artifact.model.maxPositions,
                        " positions");
  ModelFootprint footprint = footprintOf(model);
  footprint.pathsBytes = pathsBytes;
  MOERT_ASSIGN_OR_RETURN(std::vector<BudgetPlan> planned,
                         planBudgets(footprint, request.budgets, use));
  footprint = withPlans(footprint, planned.size());
  std::vector<Plan> plans;
  for (const BudgetPlan &plan : planned) {
    MOERT_RETURN_IF_ERROR(accountOf(footprint, plan, use).status());
    Plan &made = plans.emplace_back();
    made.name = plan.name;
    made.budgetBytes = plan.budgetBytes;
    made.prefillChunk = plan.prefillChunk;
    made.contextTokens = plan.contextTokens;
    made.stagingPages = plan.allotment.stagingPages;
    made.quotaPages = plan.allotment.quotaPages;
    made.preset = presetName(plan.preset);
    made.rules = rulesOf(plan.preset);
    made.reasons = draftReasons(artifact, plan.preset, made);
  }
  return plans;
}

/// The unchanged artifact, with the planning inputs from the request's files.
static Result<PlannedArtifact> readInputs(const ReplanRequest &request, const ByteSource &source,
                                          const Artifact &artifact, const Session &session) {
  PlannedArtifact inputs;
  inputs.artifact = artifact;
  if (!request.devicePath.empty()) {
    MOERT_ASSIGN_OR_RETURN(inputs.device, readDeviceFile(request.devicePath));
  }
  if (request.profilePath.empty()) {
    MOERT_ASSIGN_OR_RETURN(inputs.learned, readLearnedSections(source, artifact));
  } else {
    MOERT_ASSIGN_OR_RETURN(std::unique_ptr<CalibrationProfile> profile,
                           CalibrationProfile::open(request.profilePath));
    MOERT_RETURN_IF_ERROR(checkSameCheckpoint(artifact, request.artifactPath,
                                              profile->info().checkpointHash, request.profilePath,
                                              session));
    MOERT_ASSIGN_OR_RETURN(Learned learned, learn(*profile, expertPayloadBytes(artifact)));
    inputs.learned = std::move(learned.sections);
  }
  if (inputs.learned.trace.empty())
    return inputs;
  const bool isOwn = request.profilePath.empty();
  auto trace = readTraceOf(artifact, inputs.learned.trace);
  if (!trace.isOk())
    return trace.status().withContext(isOwn ? request.artifactPath : request.profilePath);
  inputs.trace = std::move(trace).value();
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

/// Makes all checks that can fail early; refine() does the slow part. weightsEnd: end of the new
/// artifact's weights.
static Result<PlannedArtifact> draftPlans(const ReplanRequest &request, const ByteSource &source,
                                          const Session &session, uint64_t &weightsEnd) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::open(request.artifactPath));
  MOERT_ASSIGN_OR_RETURN(PlannedArtifact planned,
                         readInputs(request, source, model->artifact(), session));
  auto plans = plansFor(request, *model, planned.learned.paths.size());
  if (!plans.isOk())
    return plans.status().withContext(request.artifactPath);
  planned.artifact.plans = std::move(plans).value();
  if (planned.device)
    MemoryWarnings().check(planned.artifact.plans, *planned.device, session);
  weightsEnd = placeLearnedSections(planned.learned, planned.artifact);
  return planned;
}

/// Reports that a requested search was not possible.
static void sayUnsearched(const ReplanRequest &request, const PlannedArtifact &planned,
                          const Session &session) {
  const bool isSearchAsked = std::ranges::any_of(planned.artifact.plans, [](const Plan &plan) {
    return plan.preset == presetName(Preset::kAuto);
  });
  if (session.say && isSearchAsked && !planned.trace)
    session.say(strCat("plans follow rules and are not searched, as ",
                       request.profilePath.empty() ? request.artifactPath : request.profilePath,
                       " holds no trace: moec compile --calibration-text writes one into an "
                       "artifact, --calibration takes one from a profile"));
}

static Status refine(const ReplanRequest &request, PlannedArtifact &planned,
                     const Session &session) {
  sayUnsearched(request, planned, session);
  const PlanBasis basis{planned.trace ? &*planned.trace : nullptr, planned.learned.paths,
                        planned.device ? &*planned.device : nullptr};
  return refinePlans(planned.artifact, basis, session).withContext(request.artifactPath);
}

Result<PlannedArtifact> planArtifact(const ReplanRequest &request, const Session &session) {
  uint64_t weightsEnd = 0;
  MOERT_ASSIGN_OR_RETURN(FileSource source, FileSource::open(request.artifactPath));
  MOERT_ASSIGN_OR_RETURN(PlannedArtifact planned, draftPlans(request, source, session, weightsEnd));
  MOERT_RETURN_IF_ERROR(refine(request, planned, session));
  return planned;
}

Status replanArtifact(const ReplanRequest &request, const Session &session) {
  const std::vector<std::string> inputs = {request.artifactPath, request.devicePath,
                                           request.profilePath};
  MOERT_RETURN_IF_ERROR(checkReplacesNone(request.outputPath, inputs));
  MOERT_ASSIGN_OR_RETURN(std::optional<WorkDirectory> left,
                         WorkDirectory::findLeft(request.outputPath, inputs));
  if (left && session.say)
    session.say(left->leftText(request.outputPath));
  uint64_t weightsEnd = 0;
  MOERT_ASSIGN_OR_RETURN(FileSource source, FileSource::open(request.artifactPath));
  MOERT_ASSIGN_OR_RETURN(PlannedArtifact planned, draftPlans(request, source, session, weightsEnd));
  Artifact &artifact = planned.artifact;
  // Plans may use the newest fields.
  artifact.minorVersion = std::max(artifact.minorVersion, kFormatMinor);
  // Refined plans may take a few KiB more or less.
  const uint64_t expectedBytes =
      weightsEnd + artifact.pathsBytes + artifact.traceBytes + artifact.manifestBytes;
  MOERT_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create(request.outputPath, expectedBytes));
  WeightsCopy weights(source, weightsEnd, output, session.stop);
  MOERT_RETURN_IF_ERROR(refine(request, planned, session));
  MOERT_ASSIGN_OR_RETURN(SealedArtifact sealed, sealArtifact(artifact));
  MOERT_RETURN_IF_ERROR(weights.wait(session));
  MOERT_RETURN_IF_ERROR(finishArtifact(planned, sealed, output));
  if (left)
    left->discard();
  if (session.say)
    session.say(strCat("wrote ", request.outputPath, ", ", formatBytes(artifact.fileBytes),
                       plannedText(artifact.plans)));
  return {};
}

} // namespace moec
