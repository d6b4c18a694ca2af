// Verifiers of plan attributes, and their conversion from and to the runtime's plain data.
#include "compiler/ir/PlanAttrs.h"

namespace mlir::moe {

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

// The runtime's enumerations have the same numbers.
static_assert(static_cast<int>(Sharing::kOnePool) ==
              static_cast<int>(moert::CacheSharing::kOnePool));
static_assert(static_cast<int>(Survival::kPins) == static_cast<int>(moert::PromptSurvival::kPins));
static_assert(static_cast<int>(Predictor::kAdaptiveGate) ==
              static_cast<int>(moert::Predictor::kAdaptiveGate));
static_assert(static_cast<int>(Origin::kAssumed) == static_cast<int>(moert::Origin::kAssumed));

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult PrefetchAttr::verify(EmitError emitError, Predictor predictor, uint32_t ahead,
                                   uint32_t candidates, uint32_t reads, uint32_t minProbability) {
  if (ahead == 0 || ahead > moert::kMostAhead)
    return emitError() << "a prediction " << ahead << " MoE layers ahead, expected 1 to "
                       << moert::kMostAhead;
  if (predictor == Predictor::kPaths && ahead != 1)
    return emitError() << "a prediction by an activation-path table " << ahead
                       << " MoE layers ahead, expected 1";
  if (candidates > UINT16_MAX || reads > candidates || minProbability > moert::kFixedPointOne)
    return emitError() << "a prefetch rule of " << reads << " reads among " << candidates
                       << " candidates with a probability of at least " << minProbability
                       << ", expected reads <= candidates <= " << UINT16_MAX
                       << " and a probability of at most " << moert::kFixedPointOne;
  return success();
}

LogicalResult MissAttr::verify(EmitError emitError, moert::MissAction /*action*/,
                               uint32_t lowSlices, uint32_t waitUpTo, uint32_t skipBeyond,
                               uint32_t substituteWithin) {
  if (lowSlices == 0 || lowSlices > UINT8_MAX || waitUpTo > skipBeyond ||
      skipBeyond > moert::kFixedPointOne || substituteWithin > moert::kFixedPointOne)
    return emitError() << "a miss rule with " << lowSlices << " slices, scores of " << waitUpTo
                       << " and " << skipBeyond << " and a distance of " << substituteWithin
                       << ", expected 1 to " << UINT8_MAX
                       << " slices, ascending scores and a distance of at most "
                       << moert::kFixedPointOne;
  return success();
}

LogicalResult ExchangeAttr::verify(EmitError emitError, uint32_t everyTokens, uint32_t afterTokens,
                                   uint32_t fadeShift) {
  if (afterTokens == 0 || afterTokens > std::max(1u, everyTokens) || fadeShift == 0 ||
      fadeShift > moert::kMostFadeShift)
    return emitError() << "an exchange in every " << everyTokens << " tokens, after " << afterTokens
                       << ", with a fade shift of " << fadeShift
                       << ", expected 1 to as many tokens and a shift of 1 to "
                       << uint32_t(moert::kMostFadeShift);
  return success();
}

static bool areExperts(DenseI32ArrayAttr experts) {
  DenseSet<int32_t> seen;
  return llvm::all_of(experts.asArrayRef(),
                      [&](int32_t expert) { return expert >= 0 && seen.insert(expert).second; });
}

LogicalResult StartAttr::verify(EmitError emitError, DenseI32ArrayAttr experts,
                                DenseI32ArrayAttr uses) {
  if (!areExperts(experts) || experts.size() != uses.size() ||
      !llvm::all_of(uses.asArrayRef(), [](int32_t count) { return count >= 0; }))
    return emitError() << "a start expected distinct experts and one number of uses for each";
  return success();
}

LogicalResult ReasonAttr::verify(EmitError emitError, StringRef decision, StringRef /*value*/,
                                 StringRef /*why*/, Origin /*origin*/) {
  if (decision.empty())
    return emitError() << "a reason without a decision";
  return success();
}

LogicalResult ForecastAttr::verify(EmitError emitError, StringRef device, uint32_t /*threads*/,
                                   uint64_t tokens, uint64_t traceTokens, FloatAttr tokenNs,
                                   FloatAttr medianNs, FloatAttr slowNs, FloatAttr hitRate,
                                   FloatAttr readyRate, FloatAttr bytesPerToken,
                                   FloatAttr prefetchRecall, FloatAttr prefetchPrecision,
                                   FloatAttr leastBytesPerToken, FloatAttr boundNs,
                                   Origin /*origin*/) {
  for (FloatAttr number : {tokenNs, medianNs, slowNs, hitRate, readyRate, bytesPerToken,
                           prefetchRecall, prefetchPrecision, leastBytesPerToken, boundNs})
    if (!number.getType().isF64() || !number.getValue().isFinite() ||
        number.getValue().isNegative())
      return emitError() << "a forecast on '" << device << "' with " << number
                         << ", expected finite f64 numbers of at least 0";
  if (tokens > traceTokens)
    return emitError() << "a forecast for " << tokens << " tokens of a trace of " << traceTokens;
  return success();
}

template <typename AttrT> static bool isArrayOf(ArrayAttr array) {
  return !array || llvm::all_of(array, llvm::IsaPred<AttrT>);
}

LogicalResult PlanLossAttr::verify(EmitError emitError, StringRef metric, FloatAttr loss,
                                   FloatAttr upperBound, FloatAttr confidence, FloatAttr klNats,
                                   FloatAttr topDisagreement, uint64_t /*units*/,
                                   uint64_t /*documents*/, uint64_t /*windows*/,
                                   uint32_t /*windowTokens*/, ArrayAttr texts, ArrayAttr quantile) {
  for (FloatAttr number : {loss, upperBound, confidence, klNats, topDisagreement})
    if (!number.getType().isF64() || !number.getValue().isFinite())
      return emitError() << "a loss of '" << metric << "' with " << number
                         << ", expected finite f64 numbers";
  if (!isArrayOf<PlanTextAttr>(texts))
    return emitError() << "a loss of '" << metric << "' expected an array of #moe.plan_text";
  if (!isQuantile(quantile))
    return emitError() << "a loss of '" << metric
                       << "' expected a quantile of two or three finite numbers";
  return success();
}

LogicalResult PlanAttr::verify(EmitError emitError, StringRef name, uint64_t /*budgetBytes*/,
                               uint32_t contextTokens, uint32_t prefillChunk,
                               uint32_t /*stagingPages*/, DenseI64ArrayAttr quotaPages,
                               StringRef /*preset*/, moert::EvictionPolicy /*eviction*/,
                               Sharing /*sharing*/, Survival /*survival*/, ArrayAttr pinned,
                               ArrayAttr start, uint32_t startTokens, ArrayAttr prefetches,
                               ForecastAttr /*forecast*/, ArrayAttr reasons, MissAttr miss,
                               PlanLossAttr loss, DenseI32ArrayAttr evictionWeights,
                               ExchangeAttr /*exchange*/, ArrayAttr expertNorms,
                               uint32_t baseSlices, uint32_t upperPart) {
  if (name.empty())
    return emitError() << "a plan without a name";
  if (contextTokens == 0 || prefillChunk == 0)
    return emitError() << "plan '" << name << "' with " << contextTokens
                       << " tokens of context and " << prefillChunk
                       << " of prefill, expected at least 1";
  if (baseSlices > UINT8_MAX || upperPart > moert::kFixedPointOne)
    return emitError() << "plan '" << name << "' with " << baseSlices
                       << " slices held alone and a part of " << upperPart
                       << " for the others, expected at most " << UINT8_MAX << " and "
                       << moert::kFixedPointOne;
  if (startTokens == 0)
    return emitError() << "plan '" << name << "' with a start of 0 tokens, expected at least 1";
  for (int64_t pages : quotaPages.asArrayRef())
    if (pages < 0 || pages > UINT32_MAX)
      return emitError() << "plan '" << name << "' with a quota of " << pages << " pages";
  if (!isArrayOf<DenseI32ArrayAttr>(pinned) || !isArrayOf<StartAttr>(start) ||
      !isArrayOf<PrefetchAttr>(prefetches) || !isArrayOf<ReasonAttr>(reasons))
    return emitError()
           << "plan '" << name
           << "' expected arrays of experts as pinned, of #moe.start, #moe.prefetch and "
              "#moe.reason";
  if (pinned && !llvm::all_of(pinned.getAsRange<DenseI32ArrayAttr>(), areExperts))
    return emitError() << "plan '" << name << "' pins an expert twice, or a negative number";
  if (evictionWeights && (evictionWeights.size() != 4 ||
                          !llvm::all_of(evictionWeights.asArrayRef(), [](int32_t weight) {
                            return weight >= 0 && uint32_t(weight) <= moert::kFixedPointOne;
                          })))
    return emitError() << "plan '" << name << "' expected 4 weights of eviction from 0 to "
                       << moert::kFixedPointOne;
  if (!isArrayOf<DenseI32ArrayAttr>(expertNorms))
    return emitError() << "plan '" << name << "' expected arrays of norms";
  if (loss && !miss)
    return emitError() << "plan '" << name << "' with a loss, expected a miss rule";
  for (ArrayAttr perLayer : {pinned, start, prefetches, expertNorms})
    if (perLayer && perLayer.size() != static_cast<size_t>(quotaPages.size()))
      return emitError() << "plan '" << name << "' has entries for " << perLayer.size()
                         << " MoE layers and quotas for " << quotaPages.size();
  return success();
}

//===----------------------------------------------------------------------===//
// Conversion to the runtime's types
//===----------------------------------------------------------------------===//

static std::vector<uint32_t> toNumbers(DenseI32ArrayAttr numbers) {
  return {numbers.asArrayRef().begin(), numbers.asArrayRef().end()};
}

static moert::PrefetchRule toRule(PrefetchAttr prefetch) {
  return {static_cast<moert::Predictor>(prefetch.getPredictor()),
          static_cast<uint8_t>(prefetch.getAhead()),
          static_cast<uint16_t>(prefetch.getCandidates()),
          static_cast<uint16_t>(prefetch.getReads()), prefetch.getMinProbability()};
}

static moert::Forecast toForecast(ForecastAttr from) {
  moert::Forecast forecast;
  forecast.device = from.getDevice().str();
  forecast.threads = from.getThreads();
  forecast.tokens = from.getTokens();
  forecast.traceTokens = from.getTraceTokens();
  forecast.tokenNs = from.getTokenNs().getValueAsDouble();
  forecast.medianNs = from.getMedianNs().getValueAsDouble();
  forecast.slowNs = from.getSlowNs().getValueAsDouble();
  forecast.hitRate = from.getHitRate().getValueAsDouble();
  forecast.readyRate = from.getReadyRate().getValueAsDouble();
  forecast.bytesPerToken = from.getBytesPerToken().getValueAsDouble();
  forecast.prefetchRecall = from.getPrefetchRecall().getValueAsDouble();
  forecast.prefetchPrecision = from.getPrefetchPrecision().getValueAsDouble();
  forecast.leastBytesPerToken = from.getLeastBytesPerToken().getValueAsDouble();
  forecast.boundNs = from.getBoundNs().getValueAsDouble();
  forecast.origin = static_cast<moert::Origin>(from.getOrigin());
  return forecast;
}

bool isQuantile(ArrayAttr quantile) {
  return !quantile || ((quantile.size() == 2 || quantile.size() == 3) &&
                       llvm::all_of(quantile, [](Attribute each) {
                         auto number = dyn_cast<FloatAttr>(each);
                         return number && number.getType().isF64() && number.getValue().isFinite();
                       }));
}

std::optional<moert::QuantileBound> toQuantile(ArrayAttr from) {
  if (!from)
    return std::nullopt;
  const auto number = [from](size_t i) { return cast<FloatAttr>(from[i]).getValueAsDouble(); };
  moert::QuantileBound quantile{number(0), number(1)};
  if (from.size() == 3)
    quantile.target = number(2);
  return quantile;
}

ArrayAttr toQuantileAttr(MLIRContext *context, const std::optional<moert::QuantileBound> &from) {
  if (!from)
    return {};
  const auto number = [context](double value) {
    return FloatAttr::get(Float64Type::get(context), value);
  };
  SmallVector<Attribute> numbers = {number(from->fraction), number(from->upperBound)};
  if (from->target)
    numbers.push_back(number(*from->target));
  return ArrayAttr::get(context, numbers);
}

static moert::PlanLoss toLoss(PlanLossAttr from) {
  moert::PlanLoss loss;
  loss.metric = from.getMetric().str();
  loss.loss = from.getLoss().getValueAsDouble();
  loss.upperBound = from.getUpperBound().getValueAsDouble();
  loss.confidence = from.getConfidence().getValueAsDouble();
  loss.klNats = from.getKlNats().getValueAsDouble();
  loss.topDisagreement = from.getTopDisagreement().getValueAsDouble();
  loss.units = from.getUnits();
  loss.documents = from.getDocuments();
  loss.windows = from.getWindows();
  loss.windowTokens = from.getWindowTokens();
  for (auto text : from.getTexts().getAsRange<PlanTextAttr>())
    loss.texts.push_back({text.getName().str(), text.getHash(), text.getBytes()});
  loss.quantile = toQuantile(from.getQuantile());
  return loss;
}

moert::Plan toPlan(PlanAttr from) {
  moert::Plan plan;
  plan.name = from.getName().str();
  plan.budgetBytes = from.getBudgetBytes();
  plan.prefillChunk = from.getPrefillChunk();
  plan.contextTokens = from.getContextTokens();
  plan.stagingPages = from.getStagingPages();
  for (int64_t pages : from.getQuotaPages().asArrayRef())
    plan.quotaPages.push_back(static_cast<uint32_t>(pages));
  plan.preset = from.getPreset().str();
  plan.rules = {from.getEviction(), static_cast<moert::CacheSharing>(from.getSharing()),
                static_cast<moert::PromptSurvival>(from.getSurvival())};
  if (DenseI32ArrayAttr weights = from.getEvictionWeights())
    plan.rules.weights = {uint32_t(weights[0]), uint32_t(weights[1]), uint32_t(weights[2]),
                          uint32_t(weights[3])};
  if (ExchangeAttr exchange = from.getExchange())
    plan.rules.exchange = {exchange.getEveryTokens(), exchange.getAfterTokens(),
                           static_cast<uint8_t>(exchange.getFadeShift())};
  if (ArrayAttr norms = from.getExpertNorms())
    for (auto layer : norms.getAsRange<DenseI32ArrayAttr>())
      plan.expertNorms.push_back(toNumbers(layer));
  plan.rules.baseSlices = static_cast<uint8_t>(from.getBaseSlices());
  plan.rules.upperPart = from.getUpperPart();
  plan.startTokens = from.getStartTokens();
  if (ArrayAttr pinned = from.getPinned())
    for (auto layer : pinned.getAsRange<DenseI32ArrayAttr>())
      plan.pinned.push_back(toNumbers(layer));
  if (ArrayAttr start = from.getStart())
    for (auto layer : start.getAsRange<StartAttr>())
      plan.start.push_back({toNumbers(layer.getExperts()), toNumbers(layer.getUses())});
  if (ArrayAttr prefetches = from.getPrefetches())
    for (auto prefetch : prefetches.getAsRange<PrefetchAttr>())
      plan.prefetches.push_back(toRule(prefetch));
  if (MissAttr miss = from.getMiss())
    plan.miss = {miss.getAction(), static_cast<uint8_t>(miss.getLowSlices()), miss.getWaitUpTo(),
                 miss.getSkipBeyond(), miss.getSubstituteWithin()};
  if (PlanLossAttr loss = from.getLoss())
    plan.loss = toLoss(loss);
  if (ForecastAttr forecast = from.getForecast())
    plan.forecast = toForecast(forecast);
  if (ArrayAttr reasons = from.getReasons())
    for (auto reason : reasons.getAsRange<ReasonAttr>())
      plan.reasons.push_back({reason.getDecision().str(), reason.getValue().str(),
                              reason.getWhy().str(),
                              static_cast<moert::Origin>(reason.getOrigin())});
  return plan;
}

namespace {

/// Makes attributes of a plan's lists; an empty list becomes an absent attribute.
struct PlanLists {
  MLIRContext *context;

  DenseI32ArrayAttr numbers(const std::vector<uint32_t> &from) const {
    SmallVector<int32_t> all(from.begin(), from.end());
    return DenseI32ArrayAttr::get(context, all);
  }
  Attribute operator()(const std::vector<uint32_t> &experts) const { return numbers(experts); }
  Attribute operator()(const moert::LayerStart &start) const {
    return StartAttr::get(context, numbers(start.experts), numbers(start.uses));
  }
  Attribute operator()(const moert::PrefetchRule &rule) const {
    return PrefetchAttr::get(context, static_cast<Predictor>(rule.predictor), rule.ahead,
                             rule.candidates, rule.reads, rule.minProbability);
  }
  Attribute operator()(const moert::PlanReason &reason) const {
    return ReasonAttr::get(context, reason.decision, reason.value, reason.reason,
                           static_cast<Origin>(reason.origin));
  }
  FloatAttr number(double value) const { return FloatAttr::get(Float64Type::get(context), value); }
  Attribute operator()(const moert::PlanText &text) const {
    return PlanTextAttr::get(context, text.name, text.hash, text.bytes);
  }
  PlanLossAttr loss(const std::optional<moert::PlanLoss> &from) const {
    if (!from)
      return {};
    SmallVector<Attribute> texts;
    for (const moert::PlanText &text : from->texts)
      texts.push_back((*this)(text));
    return PlanLossAttr::get(context, from->metric, number(from->loss), number(from->upperBound),
                             number(from->confidence), number(from->klNats),
                             number(from->topDisagreement), from->units, from->documents,
                             from->windows, from->windowTokens, ArrayAttr::get(context, texts),
                             toQuantileAttr(context, from->quantile));
  }
  ForecastAttr forecast(const moert::Forecast &from) const {
    return ForecastAttr::get(
        context, from.device, from.threads, from.tokens, from.traceTokens, number(from.tokenNs),
        number(from.medianNs), number(from.slowNs), number(from.hitRate), number(from.readyRate),
        number(from.bytesPerToken), number(from.prefetchRecall), number(from.prefetchPrecision),
        number(from.leastBytesPerToken), number(from.boundNs), static_cast<Origin>(from.origin));
  }
  DenseI32ArrayAttr weights(const moert::EvictionWeights &from) const {
    if (from == moert::EvictionWeights())
      return {};
    return numbers({from.recency, from.frequency, from.fullFrequency, from.nearness});
  }
  ExchangeAttr exchange(const moert::ExchangeRule &rule) const {
    return rule == moert::ExchangeRule()
               ? ExchangeAttr()
               : ExchangeAttr::get(context, rule.everyTokens, rule.afterTokens, rule.fadeShift);
  }
  MissAttr miss(const moert::MissRule &rule) const {
    return rule.isLossy() ? MissAttr::get(context, rule.action, rule.lowSlices, rule.waitUpTo,
                                          rule.skipBeyond, rule.substituteWithin)
                          : MissAttr();
  }
  template <typename T> ArrayAttr list(const std::vector<T> &from) const {
    SmallVector<Attribute> all;
    for (const T &each : from)
      all.push_back((*this)(each));
    return all.empty() ? ArrayAttr() : ArrayAttr::get(context, all);
  }
};

} // namespace

PlanAttr toPlanAttr(MLIRContext *context, const moert::Plan &plan) {
  const PlanLists lists{context};
  SmallVector<int64_t> quotas(plan.quotaPages.begin(), plan.quotaPages.end());
  return PlanAttr::get(context, plan.name, plan.budgetBytes, plan.contextTokens, plan.prefillChunk,
                       plan.stagingPages, DenseI64ArrayAttr::get(context, quotas), plan.preset,
                       plan.rules.eviction, static_cast<Sharing>(plan.rules.sharing),
                       static_cast<Survival>(plan.rules.survival), lists.list(plan.pinned),
                       lists.list(plan.start), plan.startTokens, lists.list(plan.prefetches),
                       plan.forecast ? lists.forecast(*plan.forecast) : ForecastAttr(),
                       lists.list(plan.reasons), lists.miss(plan.miss), lists.loss(plan.loss),
                       lists.weights(plan.rules.weights), lists.exchange(plan.rules.exchange),
                       lists.list(plan.expertNorms), plan.rules.baseSlices, plan.rules.upperPart);
}

std::vector<moert::Plan> plansOf(ModuleOp module) {
  std::vector<moert::Plan> plans;
  if (auto attributes = module->getAttrOfType<ArrayAttr>(kPlansAttr))
    for (auto plan : attributes.getAsRange<PlanAttr>())
      plans.push_back(toPlan(plan));
  return plans;
}

void setPlans(ModuleOp module, const std::vector<moert::Plan> &plans) {
  SmallVector<Attribute> attributes;
  for (const moert::Plan &plan : plans)
    attributes.push_back(toPlanAttr(module.getContext(), plan));
  module->setAttr(kPlansAttr, ArrayAttr::get(module.getContext(), attributes));
}

} // namespace mlir::moe
