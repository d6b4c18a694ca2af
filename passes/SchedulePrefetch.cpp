// moe-schedule-prefetch (Passes.td): how many experts each prediction reads, within the time and
// the staging pages that are available.
#include "passes/Passes.h"

#include "compiler/ir/PlanAttrs.h"
#include "passes/Footprint.h"
#include "passes/LayerTimes.h"
#include "passes/PlanReasons.h"
#include "passes/Predictors.h"

#include "profiles/DeviceFile.h"

#include <cstdio>

namespace mlir::moe {

#define GEN_PASS_DEF_SCHEDULEPREFETCHPASS
#include "passes/Passes.h.inc"

namespace {

/// The decision about one layer's prefetching.
struct LayerDecision {
  moert::PrefetchRule rule;
  std::string why; // If prefetching is off; equal neighbours share a reason.
  double inTime = 0;
  moert::Origin origin = moert::Origin::kAssumed;
};

class SchedulePrefetch : public impl::SchedulePrefetchPassBase<SchedulePrefetch> {
public:
  using SchedulePrefetchPassBase::SchedulePrefetchPassBase;

  void runOnOperation() override;

private:
  LogicalResult readDevice();
  LogicalResult schedule(moert::Plan &plan);
  FailureOr<LayerDecision> decide(const moert::Plan &plan, size_t layer);
  FailureOr<moec::Quantity> readsInTime(size_t layer, uint32_t ahead, uint32_t positions);
  void addReasons(const std::vector<LayerDecision> &decisions, moert::Plan &plan);

  std::optional<moec::DeviceProfile> profile; // Absent: no device was given.
  moert::CacheShape shape;
  SmallVector<RouteOp>
      routes; // In the function with predictions, by MoE layer; null: not routed to.
  SmallVector<MoeLayerOp> layers;
};

} // namespace

LogicalResult SchedulePrefetch::readDevice() {
  if (device.empty())
    return success();
  moert::Result<moec::DeviceProfile> read = moec::readDeviceFile(device);
  if (!read.isOk())
    return emitError(getOperation().getLoc(), read.status().message());
  profile = std::move(read).value();
  return success();
}

/// Fate, section 4.3: n = (t_experts + t_attention + t_router) / t_expert, from the router that
/// predicts to the layer's own router.
FailureOr<moec::Quantity> SchedulePrefetch::readsInTime(size_t layer, uint32_t ahead,
                                                        uint32_t positions) {
  LayerTimes times(getOperation(), *profile, {threads, positions});
  FailureOr<moec::Quantity> computed = times.between(routes[layer - ahead], routes[layer]);
  FailureOr<moec::Quantity> read = times.readOf(layers[layer]);
  if (failed(computed) || failed(read))
    return failure();
  const moert::Origin worst = moec::worseOf(computed->origin, read->origin);
  return moec::Quantity{computed->value / read->value,
                        moec::worseOf(worst, moert::Origin::kDerived)};
}

static std::string fixed(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

FailureOr<LayerDecision> SchedulePrefetch::decide(const moert::Plan &plan, size_t layer) {
  const moert::PrefetchRule &asked = plan.prefetches[layer];
  LayerDecision decision;
  if (asked.predictor == moert::Predictor::kOff || layer < asked.ahead || !routes[layer] ||
      !routes[layer - asked.ahead]) {
    decision.why = "no earlier layer can predict it";
    decision.origin = moert::Origin::kDerived;
    return decision;
  }
  if (plan.quotaPages[layer] >= shape.layers[layer].allPages) {
    decision.why = "all experts stay in memory";
    decision.origin = moert::Origin::kDerived;
    return decision;
  }
  std::optional<double> inTime;
  if (profile) {
    FailureOr<moec::Quantity> reads =
        readsInTime(layer, asked.ahead, std::max(1u, plan.contextTokens / 2));
    if (failed(reads))
      return failure();
    inTime = decision.inTime = reads->value;
    decision.origin = reads->origin;
  }
  const moert::CacheShape::Layer &of = shape.layers[layer];
  const uint64_t records = plan.stagingPages / std::max<uint64_t>(1, of.recordPages);
  // Without a trace the number of candidates has no measured optimum: twice the experts of a token,
  // which is the number that calibration keeps per token.
  const uint64_t named = std::min<uint64_t>(of.experts, 2 * of.topK);
  const bool isGate = asked.predictor == moert::Predictor::kGate;
  decision.rule =
      moec::withCounts(asked, {of.experts, of.topK, isGate ? of.experts : named, records}, inTime);
  if (decision.rule.predictor == moert::Predictor::kOff)
    decision.why = records == 0
                       ? "the staging pages do not hold another expert"
                       : "reading an expert takes longer than computing until its router runs";
  return decision;
}

/// Adds one reason for each run of layers with the same decision.
void SchedulePrefetch::addReasons(const std::vector<LayerDecision> &decisions, moert::Plan &plan) {
  for (size_t first = 0, end = 0; first < decisions.size(); first = end) {
    const LayerDecision &decision = decisions[first];
    double least = decision.inTime, most = decision.inTime;
    moert::Origin origin = decision.origin;
    for (end = first + 1; end < decisions.size() && decisions[end].rule == decision.rule &&
                          decisions[end].why == decision.why;
         ++end) {
      least = std::min(least, decisions[end].inTime);
      most = std::max(most, decisions[end].inTime);
      origin = moert::worseOf(origin, decisions[end].origin);
    }
    const std::string range = end - first == 1 ? moert::strCat("layer ", first)
                                               : moert::strCat("layers ", first, "-", end - 1);
    const bool isOff = decision.rule.predictor == moert::Predictor::kOff;
    std::string why = decision.why;
    if (profile && most > 0) {
      const std::string reads =
          fixed(least) == fixed(most) ? fixed(least) : fixed(least) + " to " + fixed(most);
      why +=
          moert::strCat(why.empty() ? "" : "; ", reads,
                        " reads take as long as experts, attention and router on ", profile->name);
    } else if (!isOff) {
      why = "no device was given: as many as the predictor's paper reads";
    }
    const std::string value =
        isOff ? "off"
              : moert::strCat(decision.rule.reads, " of ", decision.rule.candidates, " likeliest");
    plan.reasons.push_back({std::string(kPrefetchReasons) + range, value, why, origin});
  }
}

LogicalResult SchedulePrefetch::schedule(moert::Plan &plan) {
  removeReasons(kPrefetchReasons, plan);
  if (plan.prefetches.empty())
    return success();
  std::vector<LayerDecision> decisions;
  for (size_t layer = 0; layer < plan.prefetches.size(); ++layer) {
    FailureOr<LayerDecision> decision = decide(plan, layer);
    if (failed(decision))
      return failure();
    decisions.push_back(std::move(*decision));
  }
  addReasons(decisions, plan);
  for (auto [rule, decision] : llvm::zip_equal(plan.prefetches, decisions))
    rule = decision.rule;
  return success();
}

void SchedulePrefetch::runOnOperation() {
  ModuleOp module = getOperation();
  auto pageBytes = module->getAttrOfType<IntegerAttr>(kPageBytesAttr);
  std::vector<moert::Plan> plans = plansOf(module);
  if (plans.empty() || !pageBytes) {
    emitError(module.getLoc(), "the module has no plans: run moe-allot-cache first");
    return signalPassFailure();
  }
  FailureOr<moert::CacheShape> shapeFound =
      cacheShapeOf(module, static_cast<uint32_t>(pageBytes.getInt()));
  if (mlir::failed(shapeFound) || failed(readDevice()))
    return signalPassFailure();
  shape = *shapeFound;
  layers = llvm::to_vector(module.getOps<MoeLayerOp>());
  routes.assign(layers.size(), nullptr);
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (isPrefetching(function))
      for (RouteOp route : function.getOps<RouteOp>())
        for (auto [layer, found] : llvm::zip_equal(layers, routes))
          if (route.getMoeLayer() == layer.getSymName())
            found = route;
  for (moert::Plan &plan : plans)
    if (failed(schedule(plan)))
      return signalPassFailure();
  setPlans(module, plans);
}

} // namespace mlir::moe
