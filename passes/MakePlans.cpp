// moe-make-plans (Passes.td): one plan per budget and preset. The planner
// (compiler/plan/MakePlans.h) decides; this pass collects its input, writes its plans into the IR
// and locates its errors.
#include "passes/MakePlans.h"

#include "compiler/emit/ArtifactFacts.h"
#include "compiler/ir/PlanAttrs.h"
#include "compiler/profile/TracedRouting.h"
#include "passes/Footprint.h"

#include "profiles/DeviceFile.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/exec/Kernels.h"
#include "runtime/format/Writer.h"

#include "mlir/IR/Builders.h"

namespace mlir::moe {

#define GEN_PASS_DEF_MAKEPLANSPASS
#include "passes/Passes.h.inc"

namespace {

class MakePlans : public impl::MakePlansPassBase<MakePlans> {
public:
  using MakePlansPassBase::MakePlansPassBase;
  MakePlans(MakePlansPassOptions options, PlanSources given)
      : MakePlansPassBase(std::move(options)), sources(std::move(given)) {}

  void runOnOperation() override;

private:
  moert::Result<std::vector<moert::Plan>> makePlans(moec::ModelFacts &facts,
                                                    const moec::PlannedUse &use);
  LogicalResult checkPageBytes();
  FailureOr<moec::ModelFacts> facts();
  FailureOr<uint32_t> contextTokens(ModelAttr model);
  FailureOr<moec::PlannedUse> plannedUse(ModelAttr model);

  PlanSources sources;
  bool isOfArtifact = false;
  std::vector<moert::Plan> earlier; // The module's plans, which new ones replace.
};

} // namespace

// The largest page size that wastes at most 1/50 of all records' bytes. Slices are multiples of the
// smallest page, which therefore wastes nothing. A low copy has pages of its own.
static uint32_t pageBytesFor(const moert::Artifact &artifact) {
  for (uint32_t page = 64 * 1024; page > moert::kSliceAlignment; page /= 2) {
    uint64_t all = 0, wasted = 0;
    for (const moert::MoeLayer &layer : artifact.moeLayers)
      for (const moert::Expert &expert : layer.experts) {
        const uint64_t full = moert::fullBytesOf(expert), low = expert.bytes - full;
        all += expert.bytes;
        wasted += moert::roundUp(full, page) + moert::roundUp(low, page) - expert.bytes;
      }
    if (wasted <= all / 50)
      return page;
  }
  return moert::kSliceAlignment;
}

LogicalResult MakePlans::checkPageBytes() {
  if (pageBytes == 0 ||
      (llvm::isPowerOf2_32(pageBytes) && pageBytes >= 4096 && pageBytes <= 1 << 20))
    return success();
  return emitError(getOperation().getLoc())
         << "a page of " << pageBytes.getValue()
         << " bytes, expected a power of two from 4 KiB to 1 MiB";
}

FailureOr<uint32_t> MakePlans::contextTokens(ModelAttr model) {
  if (context > model.getMaxPositions())
    return emitError(getOperation().getLoc())
           << "found a context of " << context.getValue()
           << " tokens, expected at most the model's " << model.getMaxPositions() << " positions";
  if (context != 0)
    return static_cast<uint32_t>(context);
  return earlier.empty() ? std::min(moec::kDefaultContext, model.getMaxPositions())
                         : earlier.front().contextTokens;
}

FailureOr<moec::PlannedUse> MakePlans::plannedUse(ModelAttr model) {
  FailureOr<uint32_t> tokens = contextTokens(model);
  if (failed(tokens))
    return failure();
  moec::PlannedUse use{*tokens, moert::kKvBlockTokens, prefillChunk, threads};
  use.presets.clear();
  use.hasPaths =
      paths || !sources.paths.empty() || !calibration.empty() || hasPaths(getOperation());
  use.hobbitDepth = sources.hobbitDepth;
  for (const std::string &name : presets) {
    moert::Result<moec::Preset> preset =
        isOfArtifact ? moec::presetOf(name) : moec::exactPresetOf(name);
    if (!preset.isOk())
      return emitError(getOperation().getLoc(), preset.status().message());
    use.presets.push_back(*preset);
  }
  if (use.presets.empty())
    use.presets.push_back(moec::Preset::kAuto);
  return use;
}

moert::Result<std::vector<moert::Plan>> MakePlans::makePlans(moec::ModelFacts &facts,
                                                             const moec::PlannedUse &use) {
  const std::vector<std::string> asked(budgets.begin(), budgets.end());
  MOERT_ASSIGN_OR_RETURN(const std::vector<moec::BudgetPlan> budgeted,
                         moec::planBudgets(facts.footprint, asked, use));
  if (sources.complete) {
    const moert::ModelFootprint planned =
        moec::withPlans(facts.footprint, budgeted.size(), use.presets);
    for (const moec::BudgetPlan &budget : budgeted)
      MOERT_RETURN_IF_ERROR(moec::accountOf(planned, budget, use).status());
    MOERT_RETURN_IF_ERROR(sources.complete(facts, budgeted));
  }
  std::optional<moec::DeviceProfile> deviceRead;
  moec::PlanBasis basis{nullptr, sources.device};
  if (!device.empty()) {
    MOERT_ASSIGN_OR_RETURN(deviceRead, moec::readDeviceFile(device));
    basis.device = &*deviceRead;
  }
  const moec::PlanTrace *trace = sources.trace;
  std::span<const std::byte> tables = sources.paths;
  moec::Learned learned;
  if (!calibration.empty()) {
    MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<moec::CalibrationProfile> profile,
                           moec::CalibrationProfile::open(calibration));
    MOERT_ASSIGN_OR_RETURN(learned, moec::learn(*profile, facts.footprint.expertPayloadBytes,
                                                std::nullopt)); // Plans do not use runs.
    trace = &learned.trace;
    tables = learned.sections.paths;
  }
  std::optional<moec::KnownRouting> routing;
  if (trace && basis.device) {
    MOERT_ASSIGN_OR_RETURN(routing, moec::routingOf(*trace, tables, facts));
    basis.routing = &*routing;
  }
  const std::optional<moec::WidthsReason> widths =
      sources.widths || earlier.empty() ? sources.widths : moec::widthsReasonOf(earlier.front());
  return moec::makePlans(facts, budgeted, use, basis, widths, sources.watch);
}

FailureOr<moec::ModelFacts> MakePlans::facts() {
  FailureOr<moert::Artifact> artifact = describe(getOperation());
  if (mlir::failed(artifact))
    return failure();
  auto kept = getOperation()->getAttrOfType<IntegerAttr>(kPageBytesAttr);
  if (pageBytes != 0)
    artifact->pageBytes = pageBytes;
  else if (kept && isOfArtifact) // Its records are laid out for such pages.
    artifact->pageBytes = static_cast<uint32_t>(kept.getInt());
  else
    artifact->pageBytes = pageBytesFor(*artifact);
  // Low copies end with a page.
  if (moert::Status status = moert::layOutArtifact(*artifact, {}); !status.isOk())
    return emitStatus(getOperation(), status);
  FailureOr<moert::ModelFootprint> footprint = footprintOf(getOperation(), *artifact);
  if (mlir::failed(footprint))
    return failure();
  return moec::factsOf(*artifact, *footprint);
}

void MakePlans::runOnOperation() {
  ModuleOp module = getOperation();
  auto model = module->getAttrOfType<ModelAttr>(kModelAttr);
  if (!model || prefillChunk == 0 || threads == 0) {
    emitError(module.getLoc(), model ? "prefill-chunk or threads is 0, expected at least 1"
                                     : "the module has no 'moe.model'");
    return signalPassFailure();
  }
  isOfArtifact = module->hasAttr(kArtifactAttr);
  earlier = plansOf(module);
  FailureOr<moec::PlannedUse> use = plannedUse(model);
  if (failed(use) || failed(checkPageBytes()))
    return signalPassFailure();
  FailureOr<moec::ModelFacts> known = facts();
  if (mlir::failed(known))
    return signalPassFailure();
  moert::Result<std::vector<moert::Plan>> plans = makePlans(*known, *use);
  if (!plans.isOk()) {
    emitError(module.getLoc(), plans.status().message());
    return signalPassFailure();
  }
  module->setAttr(kPageBytesAttr,
                  Builder(&getContext()).getI64IntegerAttr(known->footprint.pageBytes));
  setPlans(module, *plans);
}

std::unique_ptr<Pass> createMakePlansPass(MakePlansPassOptions options, PlanSources sources) {
  return std::make_unique<MakePlans>(std::move(options), std::move(sources));
}

} // namespace mlir::moe
