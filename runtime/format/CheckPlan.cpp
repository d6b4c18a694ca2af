// The rules about a plan that need nothing but the plan: its fields, lists that have an entry for
// every MoE layer and name an expert once, rules that fit each other.
#include "runtime/format/Validate.h"
#include "runtime/format/ValidateRules.h"

#include <algorithm>

namespace moert {

constexpr uint32_t kMostExperts = 65536; // In a layer.

static Status checkDistinct(const std::vector<uint32_t> &experts) {
  std::vector<bool> isNamed(experts.empty() ? 0 : kMostExperts);
  for (uint32_t expert : experts) {
    MOERT_RETURN_IF_ERROR(checkRange("expert", expert, 0, kMostExperts - 1));
    if (isNamed[expert])
      return invalidInput("expert ", expert, " is listed twice");
    isNamed[expert] = true;
  }
  return {};
}

static Status checkStart(const LayerStart &start, uint32_t startTokens) {
  MOERT_RETURN_IF_ERROR(checkDistinct(start.experts));
  if (start.uses.size() != start.experts.size())
    return invalidInput("uses of ", start.uses.size(), " experts, expected ", start.experts.size());
  for (uint32_t uses : start.uses)
    MOERT_RETURN_IF_ERROR(checkRange("uses", uses, 0, startTokens));
  return {};
}

static Status checkPrefetch(const PrefetchRule &rule) {
  if (rule.predictor == Predictor::kOff)
    return {};
  MOERT_RETURN_IF_ERROR(checkRange("candidates", rule.candidates, 1, UINT16_MAX));
  MOERT_RETURN_IF_ERROR(checkRange("reads", rule.reads, 1, rule.candidates));
  if (rule.predictor == Predictor::kPaths && rule.ahead != 1)
    return invalidInput("the activation-path table predicts ", uint32_t(rule.ahead),
                        " ahead, expected 1");
  return {};
}

static Status checkLists(const Plan &plan) {
  for (const auto &[what, count] : {std::pair{"pins", plan.pinned.size()},
                                    {"starts", plan.start.size()},
                                    {"prefetch rules", plan.prefetches.size()},
                                    {"lists of norms", plan.expertNorms.size()}})
    if (count != 0 && count != plan.quotaPages.size())
      return invalidInput(what, " of ", count, " layers, expected none or ",
                          plan.quotaPages.size());
  for (size_t i = 0; i < plan.pinned.size(); ++i)
    MOERT_RETURN_IF_ERROR(
        checkDistinct(plan.pinned[i]).withContext(strCat("pins of MoE layer ", i)));
  for (size_t i = 0; i < plan.start.size(); ++i)
    MOERT_RETURN_IF_ERROR(
        checkStart(plan.start[i], plan.startTokens).withContext(strCat("start of MoE layer ", i)));
  for (size_t i = 0; i < plan.prefetches.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkPrefetch(plan.prefetches[i]).withContext(strCat("prefetches ", i)));
  return {};
}

static Status checkWeights(const CacheRules &rules) {
  const EvictionWeights &weights = rules.weights;
  if (!needs(rules.eviction, ScoreData::kWeights)) {
    if (weights != EvictionWeights())
      return invalidInput("weights of eviction, expected none without the weighted policy");
    return {};
  }
  const uint64_t sum =
      uint64_t(weights.recency) + weights.frequency + weights.fullFrequency + weights.nearness;
  return checkRange("the sum of the weights of eviction", sum, 1, kFixedPointOne);
}

static Status checkExchange(const Plan &plan) {
  const ExchangeRule &exchange = plan.rules.exchange;
  if (!needs(plan.rules.eviction, ScoreData::kExchanges)) {
    if (exchange != ExchangeRule() || !plan.expertNorms.empty())
      return invalidInput("a rule of exchanges or norms of experts, expected none without eviction "
                          "by importance");
    return {};
  }
  if (plan.rules.sharing != CacheSharing::kLayerQuotas)
    return invalidInput("eviction by importance in one pool, expected quotas per layer: the "
                        "importances of layers cannot be compared");
  if (!plan.prefetches.empty() && exchange.exchanges())
    return invalidInput("exchanges beside prefetches, expected one of the two");
  return checkRange("after_tokens", exchange.afterTokens, 1, std::max(1u, exchange.everyTokens));
}

static Status checkUpperPart(const Plan &plan) {
  if (plan.rules.upperPart == 0)
    return {};
  if (plan.rules.sharing != CacheSharing::kOnePool)
    return invalidInput("a pool for upper slices beside quotas per layer, expected one pool");
  const auto hasAny = [](const std::vector<uint32_t> &pins) { return !pins.empty(); };
  if (std::ranges::any_of(plan.pinned, hasAny))
    return invalidInput("a pool for upper slices beside pinned experts, expected one of the two");
  return {};
}

static Status checkMiss(const Plan &plan) {
  const MissRule &miss = plan.miss;
  MOERT_RETURN_IF_ERROR(checkRange("wait_up_to", miss.waitUpTo, 0, miss.skipBeyond));
  if (plan.rules.baseSlices != 0 && plan.rules.baseSlices != miss.baseSlices())
    return invalidInput(uint32_t(plan.rules.baseSlices), " slices that are held alone, expected 0",
                        miss.baseSlices() == 0 ? "" : strCat(" or ", uint32_t(miss.baseSlices())),
                        " for ", missRuleText(miss));
  return {};
}

static Status checkLoss(const Plan &plan) {
  if (!plan.loss)
    return {};
  if (!plan.miss.isLossy())
    return invalidInput("it was measured, but the plan has no miss rule");
  return checkQuantile(plan.loss->quantile);
}

Status checkPlan(const Plan &plan) {
  MOERT_RETURN_IF_ERROR(checkFields(plan));
  if (plan.name.empty())
    return invalidInput("the name is empty");
  MOERT_RETURN_IF_ERROR(checkLists(plan));
  MOERT_RETURN_IF_ERROR(checkWeights(plan.rules));
  MOERT_RETURN_IF_ERROR(checkExchange(plan));
  MOERT_RETURN_IF_ERROR(checkUpperPart(plan));
  MOERT_RETURN_IF_ERROR(checkMiss(plan).withContext("miss"));
  MOERT_RETURN_IF_ERROR(checkLoss(plan).withContext("loss"));
  if (const auto &forecast = plan.forecast; forecast && forecast->tokens > forecast->traceTokens)
    return invalidInput("forecast: it covers ", forecast->tokens, " tokens, expected at most the ",
                        forecast->traceTokens, " that the trace decodes");
  return {};
}

} // namespace moert
