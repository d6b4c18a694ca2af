#include "compiler/planning/Outlook.h"

#include "compiler/emit/ArtifactFacts.h"
#include "compiler/import/ConfigOnly.h"
#include "compiler/ir/BuildModel.h"
#include "compiler/ir/PlanAttrs.h"
#include "compiler/pipeline/IrContext.h"
#include "compiler/plan/BudgetPlan.h"
#include "compiler/plan/DeviceTimes.h"
#include "compiler/plan/StepCosts.h"
#include "compiler/planning/DeviceMemory.h"
#include "passes/Footprint.h"
#include "passes/Pipeline.h"
#include "runtime/base/Size.h"
#include "runtime/exec/Kernels.h"

#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <set>

using namespace moert;
using mlir::moe::ExpertBits;

namespace moec {

double assumedHitRate(double cachedFraction) {
  for (size_t i = 1; i < std::size(kAssumedHits); ++i) {
    const AssumedHit &low = kAssumedHits[i - 1], &high = kAssumedHits[i];
    if (cachedFraction <= high.cachedFraction)
      return low.hitRate + (high.hitRate - low.hitRate) * (cachedFraction - low.cachedFraction) /
                               (high.cachedFraction - low.cachedFraction);
  }
  return 1;
}

static double fractionOf(uint64_t pages, const CacheShape &shape) {
  return double(pages) / std::max(1.0, double(largestPoolPages(shape)));
}

ExpectedHits expectedHits(const CacheShape &shape, const CacheAllotment &allotment) {
  const bool usesAll = std::ranges::all_of(
      shape.layers, [](const CacheShape::Layer &layer) { return layer.topK == layer.experts; });
  if (usesAll)
    return {fractionOf(allotment.totalPages() - allotment.stagingPages, shape), Origin::kDerived};
  return {assumedHitRate(fractionOf(allotment.totalPages(), shape)), Origin::kAssumed};
}

namespace {

/// The model at one width, from the same passes as a compile.
struct SizedModel {
  Artifact artifact;
  ModelFootprint footprint;
};

struct Width {
  std::string_view option; // As --bits names it.
  double bits;
  ExpertBits value;
};

constexpr Width kWidths[] = {{"8", 8, ExpertBits::k8}, {"6", 6, ExpertBits::k6},
                             {"5", 5, ExpertBits::k5}, {"4", 4, ExpertBits::k4},
                             {"3", 3, ExpertBits::k3}, {"2", 2, ExpertBits::k2}};

/// Bits of an expert's weight as the checkpoint stores it, scales included.
Result<double> sourceBitsOf(const ConfigOnly &config) {
  double bytes = 0, weights = 0;
  for (const LayerDescription &layer : config.description.layers) {
    if (!layer.moe)
      continue;
    for (const GluDescription &expert : layer.moe->experts)
      for (const LinearDescription *matrix : {&expert.gate, &expert.up, &expert.down}) {
        const WeightSource &source = matrix->weight;
        MOERT_ASSIGN_OR_RETURN(const StoredType type, config.typeOf(source, true));
        const uint64_t values = uint64_t(source.rows) * source.cols;
        bytes += double(storedBytes(type, values));
        weights += double(values);
      }
  }
  return weights == 0 ? 0 : 8 * bytes / weights;
}

/// Widest first, with the checkpoint's own width where its experts are quantized and kept.
Result<std::vector<Width>> widthsOf(const ConfigOnly &config) {
  std::vector<Width> widths(std::begin(kWidths), std::end(kWidths));
  MOERT_ASSIGN_OR_RETURN(const double bits, sourceBitsOf(config));
  if (bits > 0 && bits < 16)
    widths.insert(std::ranges::find_if(widths, [&](const Width &each) { return each.bits < bits; }),
                  {"source", bits, ExpertBits::kSource});
  return widths;
}

/// The tensors of the experts' matrices.
std::set<std::string_view> expertTensors(const ModelDescription &model) {
  std::set<std::string_view> tensors;
  for (const LayerDescription &layer : model.layers)
    if (layer.moe)
      for (const GluDescription &expert : layer.moe->experts)
        for (const LinearDescription *matrix : {&expert.gate, &expert.up, &expert.down})
          if (matrix != &expert.gate || expert.hasGate())
            tensors.insert(matrix->weight.tensor);
  return tensors;
}

Result<SizedModel> sizeModel(const ConfigOnly &config, const OutlookRequest &request,
                             ExpertBits bits, const Session &session) {
  IrContext ir(session);
  const std::set<std::string_view> experts = expertTensors(config.description);
  auto module = buildModel(ir.context(), config.description, request.directory,
                           [&](const WeightSource &source) {
                             return config.typeOf(source, experts.contains(source.tensor));
                           });
  if (!module)
    return ir.failure("building the IR");
  mlir::PassManager passes(ir.context());
  mlir::moe::addProgramPasses(passes, {.bits = bits});
  mlir::moe::MakePlansPassOptions plans;
  plans.context = request.context;
  passes.addPass(mlir::moe::createMakePlansPass(plans));
  if (mlir::failed(passes.run(*module)))
    return ir.failure("planning");
  SizedModel sized;
  auto artifact = mlir::moe::describe(*module);
  if (mlir::failed(artifact))
    return ir.failure("describing the model");
  sized.artifact = std::move(*artifact);
  sized.artifact.pageBytes = static_cast<uint32_t>(
      (*module)->getAttrOfType<mlir::IntegerAttr>(mlir::moe::kPageBytesAttr).getInt());
  auto footprint = mlir::moe::footprintOf(*module, sized.artifact);
  if (mlir::failed(footprint))
    return ir.failure("working out the memory");
  sized.artifact.plans = mlir::moe::plansOf(*module); // Counted by withPlans().
  sized.footprint = withPlans(*footprint, std::max<size_t>(1, request.budgets.size()));
  return sized;
}

SpeedOutlook speedOf(const SizedModel &model, const DeviceProfile &device, uint32_t context,
                     const ExpectedHits &hits) {
  const Artifact &artifact = model.artifact;
  const StepCosts costs =
      stepCostsOf(factsOf(artifact, model.footprint), device, {device.cores, context / 2});
  SpeedOutlook speed;
  speed.hitRate = hits.rate;
  speed.hitOrigin = hits.origin;
  speed.deviceOrigin = costs.origin;
  speed.tokenNs = speed.computeNs = costs.after.firstNs;
  for (size_t i = 0; i < costs.layers.size(); ++i) {
    const StepCosts::Layer &layer = costs.layers[i];
    const double wanted = model.footprint.cache.layers[i].topK,
                 missing = wanted * (1 - speed.hitRate);
    const uint64_t record = fullBytesOf(artifact.moeLayers[i].experts.front());
    const double readingNs = missing *
                             readNs(plannedReads(device), record, std::max(1.0, missing)).value /
                             std::max(1.0, missing);
    // Shared experts and resident experts are computed while the missing ones are read.
    const double besideNs = layer.beside.firstNs + wanted * layer.expert.firstNs;
    speed.computeNs += layer.before.firstNs + besideNs;
    // The last expert to arrive is computed after everything else.
    speed.tokenNs += layer.before.firstNs + missing * layer.checks.of(1) +
                     std::max(besideNs, readingNs + std::min(1.0, missing) * layer.expert.firstNs);
    speed.bytesPerToken += missing * static_cast<double>(record);
  }
  return speed;
}

class OutlookMaker {
public:
  OutlookMaker(const OutlookRequest &asked, const Session &told) : request(asked), session(told) {}

  Result<WidthOutlook> at(const ConfigOnly &config, const Width &width) {
    MOERT_ASSIGN_OR_RETURN(SizedModel model, sizeModel(config, request, width.value, session));
    use.contextTokens = model.artifact.plans.front().contextTokens;
    use.contextBlock = kKvBlockTokens;
    kvBytes = model.footprint.kvBytesPerToken * use.contextTokens;
    for (const KvSlot &slot : model.artifact.kvSlots)
      kvBits = std::max(kvBits, bitsOf(slot.kind));
    stateBytes = model.footprint.stateBytes;
    WidthOutlook outlook;
    outlook.option = width.option;
    outlook.bits = width.bits;
    outlook.fileBytes = model.artifact.recordsOffset + model.artifact.recordsBytes;
    outlook.residentBytes = model.artifact.residentBytes;
    outlook.expertBytes = model.footprint.expertPayloadBytes;
    for (const MoeLayer &layer : model.artifact.moeLayers)
      outlook.recordBytes = std::max(outlook.recordBytes, fullBytesOf(layer.experts.front()));
    outlook.smallestBudget = smallestBudget(model.footprint, use);
    for (const std::string &budget : request.budgets)
      outlook.budgets.push_back(withBudget(model, budget, outlook.smallestBudget));
    return outlook;
  }

  uint32_t contextTokens() const { return use.contextTokens; }
  uint64_t contextBytes() const { return kvBytes; }
  uint32_t bitsOfKv() const { return kvBits; }
  uint64_t sequenceBytes() const { return stateBytes; }

private:
  BudgetOutlook withBudget(const SizedModel &model, const std::string &budget, uint64_t smallest) {
    BudgetOutlook outlook;
    outlook.budget = budget;
    auto planned = planBudget(model.footprint, budget, Preset::kAuto, use);
    if (!planned.isOk()) // A percentage that is less than one record.
      return outlook;
    const BudgetPlan &plan = *planned;
    outlook.budgetBytes = plan.budgetBytes;
    outlook.isEnough = plan.budgetBytes >= smallest;
    if (!outlook.isEnough) {
      PlannedUse shortest = use;
      shortest.contextTokens = 1;
      outlook.fitsShorterContext = plan.budgetBytes >= smallestBudget(model.footprint, shortest);
      return outlook;
    }
    const CacheShape &shape = model.footprint.cache;
    outlook.cachedFraction = fractionOf(plan.allotment.totalPages(), shape);
    if (request.device)
      outlook.speed =
          speedOf(model, *request.device, use.contextTokens, expectedHits(shape, plan.allotment));
    return outlook;
  }

  const OutlookRequest &request;
  const Session &session;
  PlannedUse use;
  uint64_t kvBytes = 0, stateBytes = 0;
  uint32_t kvBits = 0;
};

} // namespace

// A percentage is relative to the experts' bytes, so its size depends on the width.
static Status checkDeviceMemory(const Outlook &outlook, const DeviceProfile &device,
                                const Session &session) {
  MemoryWarnings warnings;
  for (const WidthOutlook &width : outlook.widths)
    for (const BudgetOutlook &of : width.budgets) {
      MOERT_ASSIGN_OR_RETURN(const Size size, parseSize(of.budget));
      if (of.isEnough)
        warnings.check(size.fraction ? strCat(of.budget, " at ", width.bits, " bits") : of.budget,
                       of.budgetBytes, device, session);
    }
  return {};
}

Result<Outlook> outlookOf(const OutlookRequest &request, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(ConfigOnly config, describeConfig(request.directory));
  Outlook outlook;
  const ModelDescription &model = config.description;
  if (request.context > model.maxPositions)
    return invalidInput(request.directory, "/config.json: found a context of ", request.context,
                        " tokens, expected at most the model's ", model.maxPositions,
                        " positions (max_position_embeddings)");
  outlook.modelType = model.modelType;
  outlook.parameters = countParameters(model);
  outlook.layers = static_cast<uint32_t>(model.layers.size());
  for (const LayerDescription &layer : model.layers) {
    if (!layer.moe)
      continue;
    ++outlook.moeLayers;
    outlook.experts = static_cast<uint32_t>(layer.moe->experts.size());
    outlook.topK = layer.moe->router.topK;
  }
  OutlookMaker maker(request, session);
  MOERT_ASSIGN_OR_RETURN(const std::vector<Width> widths, widthsOf(config));
  for (const Width &width : widths) {
    MOERT_ASSIGN_OR_RETURN(WidthOutlook of, maker.at(config, width));
    outlook.widths.push_back(std::move(of));
  }
  outlook.contextTokens = maker.contextTokens();
  outlook.kvBytes = maker.contextBytes();
  outlook.kvBits = maker.bitsOfKv();
  outlook.stateBytes = maker.sequenceBytes();
  if (request.device)
    MOERT_RETURN_IF_ERROR(checkDeviceMemory(outlook, *request.device, session));
  return outlook;
}

} // namespace moec
