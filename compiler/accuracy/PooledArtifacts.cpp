#include "compiler/accuracy/PooledArtifacts.h"

#include "compiler/accuracy/SearchedWidths.h"
#include "compiler/plan/WidthSolvers.h"
#include "compiler/pool/FeedbackGrids.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <span>

using namespace moert;

namespace moec {

// The methods of papers keep the papers' grids.
Result<std::vector<ExpertGrid>> poolGridsOf(const AccurateCompileRequest &request,
                                            std::span<const MoeLayer> layers) {
  const mlir::moe::CompileOptions &passes = request.passes;
  std::vector<ExpertWidth> widths = searchedWidths(request);
  if (const ExpertWidth low = passes.lowCopyBits;
      low.bits != 0 && std::ranges::find(widths, low) == widths.end())
    widths.push_back(low);
  if (request.method == QuantizeMethod::kGptq)
    return feedbackGrids(widths);
  uint32_t group = passes.group;
  if (request.method == QuantizeMethod::kPerChannel) {
    uint32_t rowInputs = 0;
    for (const MoeLayer &layer : layers)
      for (const ExpertMatrix &matrix : layer.matrices)
        rowInputs = std::max(rowInputs, matrix.shape.cols);
    group = uint32_t(roundUp(uint64_t(rowInputs), passes.activationGroup));
  }
  const auto gridOf = [&](uint32_t bits) {
    return Grid{bits, group, request.method == QuantizeMethod::kHqq};
  };
  std::vector<ExpertGrid> grids;
  for (const ExpertWidth &width : widths)
    grids.emplace_back(gridOf(width.bits), gridOf(width.downBits));
  return grids;
}

Status PooledArtifacts::openPool(const CalibrationInfo &info) {
  PoolOptions options;
  options.directory = directory + "/pool";
  options.method = request.method;
  MOERT_ASSIGN_OR_RETURN(options.grids, poolGridsOf(request, layers.artifact.moeLayers));
  options.activationGroup = request.passes.activationGroup;
  options.nested = request.passes.nested;
  options.checkpointHash = info.checkpointHash;
  options.threads = request.threads;
  options.stop = session.stop;
  options.progress = session.progress;
  MOERT_RETURN_IF_ERROR(makeDirectory(options.directory));
  MOERT_ASSIGN_OR_RETURN(pool, ExpertPool::open(layers, info, options));
  return {};
}

Status PooledArtifacts::fillLayer(const CalibrationProfile &profile, size_t layer,
                                  const std::function<void(double)> &advance) {
  if (!pool)
    MOERT_RETURN_IF_ERROR(openPool(profile.info()));
  size_t done = 0;
  return pool->fillLayer(layers, model.checkpoint, profile, layer,
                         [&](bool) { advance(double(++done) / double(pool->expertsOf(layer))); });
}

Status PooledArtifacts::fillPool(const CalibrationProfile &profile) {
  if (!pool)
    MOERT_RETURN_IF_ERROR(openPool(profile.info()));
  return pool->fill(layers, model.checkpoint, profile);
}

Status PooledArtifacts::finish(const CalibrationProfile &profile) {
  MOERT_RETURN_IF_ERROR(fillPool(profile));
  if (request.method == QuantizeMethod::kGptq)
    feedback.emplace(profile);
  return makeItems(profile.info());
}

Status PooledArtifacts::makeItems(const CalibrationInfo &info) {
  std::vector<ResidentClass> residents;
  if (request.areResidentBitsChosen && request.hasTarget()) {
    MOERT_ASSIGN_OR_RETURN(residents, residentClassesOf(model, session));
  }
  MOERT_ASSIGN_OR_RETURN(WidthItems made,
                         WidthItems::create(*pool, searchedWidths(request).size(), info,
                                            std::move(residents), request.method, request.passes));
  widthItems.emplace(std::move(made));
  return {};
}

Result<std::unique_ptr<PooledArtifacts>>
PooledArtifacts::create(const AccurateCompileRequest &request, const ImportedModel &model,
                        std::string profilePath, const std::string &directory,
                        const Session &session) {
  std::unique_ptr<PooledArtifacts> artifacts(
      new PooledArtifacts(request, model, std::move(profilePath), directory, session));
  static const Session quiet;
  MOERT_ASSIGN_OR_RETURN(artifacts->ir, ModelIr::create(model, quiet));
  mlir::moe::CompileOptions passes = request.passes;
  passes.budgets.clear();
  MOERT_ASSIGN_OR_RETURN(artifacts->layers, artifacts->ir->plan({}, passes));
  for (const MoeLayer &layer : artifacts->layers.artifact.moeLayers)
    for (const ExpertMatrix &matrix : layer.matrices)
      artifacts->weights += layer.experts.size() * uint64_t(matrix.shape.rows) * matrix.shape.cols;
  return artifacts;
}

uint64_t PooledArtifacts::layerBytes() const {
  uint64_t most = 0;
  for (const MoeLayer &layer : layers.artifact.moeLayers)
    most = std::max(most, ExpertPool::layerBytes(layer, request.calibrationTokens));
  return most;
}

uint64_t PooledArtifacts::fewestExpertBytes() const {
  return widthItems->expertBytesOf(uniformAssignment(widthItems->input().problem, 0));
}

static mlir::moe::ExpertBits expertBitsOf(uint32_t bits) {
  using enum mlir::moe::ExpertBits;
  return bits == 8 ? k8 : bits == 6 ? k6 : bits == 5 ? k5 : bits == 4 ? k4 : bits == 3 ? k3 : k2;
}

Result<EmitPlan> PooledArtifacts::plan(const WidthAssignment &assignment,
                                       const PlanRequest &asked) const {
  mlir::moe::CompileOptions passes = request.passes;
  passes.paths = true; // Calibration counts them.
  if (!asked.hasLowCopies)
    passes.lowCopyBits = 0;
  passes.budgets = asked.budgets;
  passes.sources = asked.sources;
  // All have one group and one kind of scales, with offsets or without, and are transformed or not;
  // the narrowest has levels if any has. Where the widths are given, down may be the narrower one.
  const ExpertGrid &narrowest = pool->grids().back();
  const Grid &grid = narrowest.gateUp;
  mlir::moe::Choices choices;
  choices.quantizer = {mlir::moe::QuantizeMethod(request.method),
                       grid.group,
                       grid.hasOffsets,
                       grid.hasLevels || narrowest.down.hasLevels,
                       grid.hasByteScales,
                       grid.hasHadamard,
                       passes.nested,
                       profilePath,
                       fewestExpertBytes(),
                       asked.searchRuns};
  choices.measured = asked.measured;
  choices.widthsBy = asked.widthsBy;
  choices.residentBits = widthItems->residentBitsOf(assignment);
  if (request.bits) {
    passes.bits = expertBitsOf(*request.bits);
  } else {
    choices.expertBits = widthItems->expertBitsOf(assignment);
    choices.expertDownBits = widthItems->expertDownBitsOf(assignment);
  }
  return ir->plan(choices, passes, asked.moduleText);
}

Status PooledArtifacts::emit(EmitPlan plan, const WidthAssignment &assignment,
                             EmitOptions options) const {
  MOERT_ASSIGN_OR_RETURN(
      const PooledRecords records,
      PooledRecords::withLowCopies(*pool, widthItems->gridsOf(assignment), plan.artifact));
  plan.records = &records;
  plan.feedback = feedback ? &*feedback : nullptr;
  options.threads = request.threads;
  options.stop = session.stop;
  MOERT_ASSIGN_OR_RETURN(EmitResult result, emitArtifact(plan, model.checkpoint, options));
  if (result.hasStartedOver)
    sayTo(session,
          strCat(options.outputPath,
                 ": what was left of it is damaged or of other options; it was started over"));
  return {};
}

} // namespace moec
