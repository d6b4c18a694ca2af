#include "compiler/driver/Replan.h"

#include "compiler/plan/BudgetPlan.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"
#include "runtime/engine/Footprint.h"
#include "runtime/format/Verify.h"
#include "runtime/format/Writer.h"

#include <algorithm>
#include <memory>
#include <utility>

using namespace moert;

namespace moec {

static Result<std::vector<Plan>> plansFor(const ReplanRequest &request, const Model &model) {
  const Artifact &artifact = model.artifact();
  PlannedUse use;
  use.contextTokens = request.context ? request.context : artifact.plans.front().contextTokens;
  use.contextBlock = kKvBlockTokens;
  if (use.contextTokens > artifact.model.maxPositions)
    return invalidInput("a context of ", use.contextTokens, " tokens, the model has ",
                        artifact.model.maxPositions, " positions");
  const ModelFootprint footprint = footprintOf(model);
  MOERT_ASSIGN_OR_RETURN(std::vector<BudgetPlan> planned,
                         planBudgets(footprint, request.budgets, use));
  std::vector<Plan> plans;
  for (const BudgetPlan &plan : planned) {
    MOERT_RETURN_IF_ERROR(accountOf(footprint, plan, use).status());
    plans.push_back({plan.name, plan.budgetBytes, plan.prefillChunk, plan.contextTokens,
                     plan.allotment.transitPages, plan.allotment.quotaPages});
  }
  return plans;
}

// A copy of what is damaged would be all that is left, once the artifact is gone.
static Status checkWhole(const ByteSource &source, const Session &session) {
  bool hasBegun = false;
  return verifyArtifact(source, [&](uint64_t done, uint64_t total) {
    if (!session.progress)
      return;
    if (!std::exchange(hasBegun, true))
      session.progress->begin("checking", total, 0);
    session.progress->advanceTo(done);
  });
}

// Everything before the description.
static Status copyWeights(const ByteSource &source, uint64_t bytes, OutputFile &output,
                          const Session &session) {
  constexpr uint64_t kPieceBytes = 8 << 20;
  std::vector<std::byte> piece(std::min(kPieceBytes, bytes));
  if (session.progress)
    session.progress->begin("copying weights", bytes, 0);
  for (uint64_t done = 0; done < bytes; done += piece.size()) {
    if (session.stop && session.stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    piece.resize(std::min<uint64_t>(piece.size(), bytes - done));
    MOERT_RETURN_IF_ERROR(source.read(done, piece));
    MOERT_RETURN_IF_ERROR(output.append(piece));
    if (session.progress)
      session.progress->advanceTo(done + piece.size());
  }
  return {};
}

Status replanArtifact(const ReplanRequest &request, const Session &session) {
  MOERT_RETURN_IF_ERROR(checkReplacesNone(request.outputPath, {&request.artifactPath, 1}));
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::open(request.artifactPath));
  Artifact artifact = model->artifact();
  auto plans = plansFor(request, *model);
  if (!plans.isOk())
    return plans.status().withContext(request.artifactPath);
  artifact.plans = std::move(plans).value();
  artifact.minorVersion = std::max(artifact.minorVersion, kFormatMinor); // What plans may use.
  MOERT_ASSIGN_OR_RETURN(SealedArtifact sealed, sealArtifact(artifact));

  MOERT_ASSIGN_OR_RETURN(FileSource source, FileSource::open(request.artifactPath));
  MOERT_RETURN_IF_ERROR(checkWhole(source, session));
  MOERT_ASSIGN_OR_RETURN(
      OutputFile output,
      OutputFile::create(request.outputPath, sealed.manifestOffset + sealed.manifest.size()));
  Status copied = copyWeights(source, sealed.manifestOffset, output, session);
  if (session.progress)
    session.progress->end();
  MOERT_RETURN_IF_ERROR(copied);
  MOERT_RETURN_IF_ERROR(output.append(sealed.manifest));
  MOERT_RETURN_IF_ERROR(output.writeAt(0, sealed.prefix));
  MOERT_RETURN_IF_ERROR(output.commit());
  if (!session.say)
    return {};
  std::string budgets;
  for (const Plan &plan : artifact.plans)
    budgets += strCat(budgets.empty() ? "" : ", ", plan.name, " (", formatBytes(plan.budgetBytes),
                      " with ", plan.contextTokens, " tokens of context)");
  session.say(
      strCat("wrote ", request.outputPath, ", ", formatBytes(artifact.fileBytes), ": ", budgets));
  return {};
}

} // namespace moec
