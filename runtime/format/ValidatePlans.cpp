// The rules about plans: room for every record, lists that name an expert once, prefetch rules that
// match the program, numbers that can be printed. All rules are arithmetic on the file alone and
// use no cache policy, so a file stays valid when a policy changes.
#include "runtime/format/Validate.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/format/ValidateRules.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace moert {

namespace {

/// Pages of a layer's records at full precision; no two records share a page.
struct RecordPages {
  uint64_t all = 0, largest = 0;
};

} // namespace

static RecordPages pagesOf(const MoeLayer &layer, uint32_t pageBytes) {
  RecordPages pages;
  for (const Expert &expert : layer.experts) {
    const uint64_t one = divideUp(fullBytesOf(expert), pageBytes);
    pages.all += one;
    pages.largest = std::max(pages.largest, one);
  }
  return pages;
}

static Status checkQuotas(const Artifact &artifact, const Plan &plan) {
  if (plan.quotaPages.size() != artifact.moeLayers.size())
    return invalidInput("quotas of ", plan.quotaPages.size(), " layers, expected ",
                        artifact.moeLayers.size());
  for (size_t i = 0; i < artifact.moeLayers.size(); ++i) {
    const RecordPages pages = pagesOf(artifact.moeLayers[i], artifact.pageBytes);
    uint64_t room = uint64_t(plan.quotaPages[i]) + plan.stagingPages;
    if (room < pages.largest)
      return invalidInput("MoE layer ", i, " has ", room, " pages with the staging pages, its ",
                          "largest record needs ", pages.largest);
    if (plan.quotaPages[i] > pages.all)
      return invalidInput("MoE layer ", i, " has a quota of ", plan.quotaPages[i],
                          " pages, all its records need ", pages.all);
  }
  return {};
}

// Lists for every MoE layer, or none.
static Status checkCount(const char *what, size_t count, const Artifact &artifact) {
  if (count != 0 && count != artifact.moeLayers.size())
    return invalidInput(what, " of ", count, " layers, expected none or ",
                        artifact.moeLayers.size());
  return {};
}

static Status checkExperts(const std::vector<uint32_t> &experts, size_t expertCount) {
  std::vector<bool> isNamed(expertCount);
  for (uint32_t expert : experts) {
    if (expert >= expertCount)
      return invalidInput("expert ", expert, ", there are ", expertCount);
    if (isNamed[expert])
      return invalidInput("expert ", expert, " is listed twice");
    isNamed[expert] = true;
  }
  return {};
}

namespace {

/// Layers that share their quotas, for the rules about pins: one layer, or all of them.
struct PinGroup {
  uint64_t quotaPages = 0, largestRecordPages = 0;
  uint64_t pinnedPages = 0;
};

} // namespace

// docs/format.md, "Pins": pinned experts fit into the quotas and leave room for the largest record,
// which may be in the staging pages.
static Status checkPinnedPages(const Artifact &artifact, const Plan &plan) {
  const bool isOnePool = plan.rules.sharing == CacheSharing::kOnePool;
  std::vector<PinGroup> groups(isOnePool ? 1 : artifact.moeLayers.size());
  auto groupOf = [&](size_t layer) -> PinGroup & { return groups[isOnePool ? 0 : layer]; };
  for (size_t i = 0; i < artifact.moeLayers.size(); ++i) {
    PinGroup &group = groupOf(i);
    group.quotaPages += plan.quotaPages[i];
    group.largestRecordPages = std::max(group.largestRecordPages,
                                        pagesOf(artifact.moeLayers[i], artifact.pageBytes).largest);
  }
  for (size_t i = 0; i < plan.pinned.size(); ++i)
    for (uint32_t expert : plan.pinned[i]) {
      PinGroup &group = groupOf(i);
      const uint64_t pages =
          divideUp(fullBytesOf(artifact.moeLayers[i].experts[expert]), artifact.pageBytes);
      // The quotas and the staging pages together hold the largest record (checkQuotas).
      const uint64_t limit = std::min(group.quotaPages, group.quotaPages + plan.stagingPages -
                                                            group.largestRecordPages);
      if (group.pinnedPages + pages > limit)
        return invalidInput("expert ", expert, " of MoE layer ", i, " is pinned: ", pages,
                            " pages, ", group.pinnedPages, " before it, expected at most ", limit,
                            ", which leaves room for the largest record");
      group.pinnedPages += pages;
    }
  return {};
}

static Status checkPins(const Artifact &artifact, const Plan &plan) {
  MOERT_RETURN_IF_ERROR(checkCount("pins", plan.pinned.size(), artifact));
  if (plan.pinned.empty())
    return {};
  for (size_t i = 0; i < plan.pinned.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkExperts(plan.pinned[i], artifact.moeLayers[i].experts.size())
                              .withContext(strCat("pins of MoE layer ", i)));
  return checkPinnedPages(artifact, plan);
}

static Status checkStart(const Artifact &artifact, const Plan &plan) {
  MOERT_RETURN_IF_ERROR(checkRange("start tokens", plan.startTokens, 1, UINT32_MAX));
  MOERT_RETURN_IF_ERROR(checkCount("starts", plan.start.size(), artifact));
  for (size_t i = 0; i < plan.start.size(); ++i) {
    const LayerStart &start = plan.start[i];
    std::string where = strCat("start of MoE layer ", i);
    MOERT_RETURN_IF_ERROR(
        checkExperts(start.experts, artifact.moeLayers[i].experts.size()).withContext(where));
    if (start.uses.size() != start.experts.size())
      return invalidInput(where, ": uses of ", start.uses.size(), " experts, expected ",
                          start.experts.size());
    for (uint32_t uses : start.uses)
      MOERT_RETURN_IF_ERROR(checkRange("uses", uses, 0, plan.startTokens).withContext(where));
  }
  return {};
}

// Bit a of a MoE layer: the program "decode" has a predict instruction a MoE layers ahead of it.
// Programs are checked after plans.
static std::vector<uint8_t> prefetchesOf(const Artifact &artifact) {
  std::vector<uint8_t> prefetches(artifact.moeLayers.size());
  for (const Program &program : artifact.programs)
    if (program.name == "decode")
      for (const Instruction &instruction : program.instructions)
        if (const auto *predict = std::get_if<PredictInstruction>(&instruction))
          if (predict->moeLayer < prefetches.size() && predict->ahead <= kMostAhead)
            prefetches[predict->moeLayer] |= uint8_t(1 << predict->ahead);
  return prefetches;
}

static Status checkPrefetch(const Artifact &artifact, const PrefetchRule &rule, size_t experts,
                            uint8_t programPrefetches) {
  MOERT_RETURN_IF_ERROR(checkRange("ahead", rule.ahead, 1, kMostAhead));
  MOERT_RETURN_IF_ERROR(checkRange("minimum probability", rule.minProbability, 0, kFixedPointOne));
  if (rule.predictor == Predictor::kOff)
    return {};
  MOERT_RETURN_IF_ERROR(checkRange("number of candidates", rule.candidates, 1, experts));
  MOERT_RETURN_IF_ERROR(checkRange("number of reads", rule.reads, 1, rule.candidates));
  if (rule.predictor == Predictor::kPaths && rule.ahead != 1)
    return invalidInput("the activation-path table predicts ", uint32_t(rule.ahead),
                        " ahead, expected 1");
  if (rule.predictor == Predictor::kPaths && artifact.pathsBytes == 0)
    return invalidInput("an activation-path table is used, but the file has no section of them");
  for (uint32_t distance = 1; distance <= kMostAhead; ++distance)
    if (rule.predictsFrom(distance) && (programPrefetches & 1 << distance) == 0)
      return invalidInput("the program 'decode' has no predict instruction ", distance,
                          " ahead of it");
  return {};
}

static Status checkPrefetches(const Artifact &artifact, const Plan &plan,
                              const std::vector<uint8_t> &programPrefetches) {
  MOERT_RETURN_IF_ERROR(checkCount("prefetch rules", plan.prefetches.size(), artifact));
  for (size_t i = 0; i < plan.prefetches.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkPrefetch(artifact, plan.prefetches[i],
                                        artifact.moeLayers[i].experts.size(), programPrefetches[i])
                              .withContext(strCat("prefetch rule of MoE layer ", i)));
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

static Status checkExchange(const Artifact &artifact, const Plan &plan) {
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
  MOERT_RETURN_IF_ERROR(checkRange("fade shift", exchange.fadeShift, 1, kMostFadeShift));
  MOERT_RETURN_IF_ERROR(checkRange("tokens until an exchange takes part", exchange.afterTokens, 1,
                                   std::max(1u, exchange.everyTokens)));
  MOERT_RETURN_IF_ERROR(checkCount("lists of norms", plan.expertNorms.size(), artifact));
  for (size_t i = 0; i < plan.expertNorms.size(); ++i) {
    const std::vector<uint32_t> &norms = plan.expertNorms[i];
    if (norms.size() != artifact.moeLayers[i].experts.size())
      return invalidInput("norms of ", norms.size(), " experts of MoE layer ", i, ", expected ",
                          artifact.moeLayers[i].experts.size());
    for (uint32_t norm : norms)
      MOERT_RETURN_IF_ERROR(checkRange("norm of an expert", norm, 0, kFixedPointOne));
  }
  return {};
}

static Status checkUpperPart(const Plan &plan) {
  const CacheRules &rules = plan.rules;
  MOERT_RETURN_IF_ERROR(checkRange("the part of upper slices", rules.upperPart, 0, kFixedPointOne));
  if (rules.upperPart > 0 && rules.sharing != CacheSharing::kOnePool)
    return invalidInput("a pool for upper slices beside quotas per layer, expected one pool");
  const auto hasAny = [](const std::vector<uint32_t> &pins) { return !pins.empty(); };
  if (rules.upperPart > 0 && std::ranges::any_of(plan.pinned, hasAny))
    return invalidInput("a pool for upper slices beside pinned experts, expected one of the two");
  return {};
}

static Status checkMiss(const Plan &plan) {
  const MissRule &miss = plan.miss;
  MOERT_RETURN_IF_ERROR(checkRange("number of low slices", miss.lowSlices, 1, UINT8_MAX));
  MOERT_RETURN_IF_ERROR(
      checkRange("largest score that is not left out", miss.skipBeyond, 0, kFixedPointOne));
  MOERT_RETURN_IF_ERROR(
      checkRange("largest score that is waited for", miss.waitUpTo, 0, miss.skipBeyond));
  if (plan.rules.baseSlices != 0 && plan.rules.baseSlices != miss.baseSlices())
    return invalidInput(uint32_t(plan.rules.baseSlices), " slices that are held alone, expected 0",
                        miss.baseSlices() == 0 ? "" : strCat(" or ", uint32_t(miss.baseSlices())),
                        " for ", missRuleText(miss));
  return checkRange("largest distance of a substitute", miss.substituteWithin, 0, kFixedPointOne);
}

static Status checkLoss(const Artifact &artifact, const Plan &plan) {
  if (!plan.loss)
    return {};
  const PlanLoss &loss = *plan.loss;
  if (!plan.miss.isLossy())
    return invalidInput("it was measured, but the plan has no miss rule");
  MOERT_RETURN_IF_ERROR(checkText(loss.metric, "the metric"));
  // A plan may score better than its reference; the KL divergence is negative only by rounding.
  for (const auto &[what, value] : {std::pair{"the loss", loss.loss},
                                    {"the loss's upper bound", loss.upperBound},
                                    {"the KL divergence", loss.klNats}})
    MOERT_RETURN_IF_ERROR(checkFinite(what, value));
  MOERT_RETURN_IF_ERROR(checkFraction("the top-1 disagreement", loss.topDisagreement));
  MOERT_RETURN_IF_ERROR(checkQuantile(loss.quantile));
  if (!(loss.confidence >= 0.9 && loss.confidence <= 0.9999))
    return invalidInput("the bound's confidence is ", loss.confidence, ", expected 0.9 to 0.9999");
  MOERT_RETURN_IF_ERROR(
      checkRange("tokens of a window", loss.windowTokens, 2, artifact.model.maxPositions));
  for (const PlanText &text : loss.texts)
    MOERT_RETURN_IF_ERROR(checkText(text.name, "a text's name"));
  return {};
}

static Status checkForecast(const Forecast &forecast) {
  MOERT_RETURN_IF_ERROR(checkText(forecast.device, "the device"));
  if (forecast.tokens > forecast.traceTokens)
    return invalidInput("it covers ", forecast.tokens, " tokens, expected at most the ",
                        forecast.traceTokens, " that the trace decodes");
  for (const auto &[what, value] : {std::pair{"time per token", forecast.tokenNs},
                                    {"median time per token", forecast.medianNs},
                                    {"time of slow tokens", forecast.slowNs},
                                    {"bytes per token", forecast.bytesPerToken},
                                    {"minimum bytes per token", forecast.leastBytesPerToken},
                                    {"bound of the time per token", forecast.boundNs}})
    MOERT_RETURN_IF_ERROR(checkAtLeast0(what, value));
  for (const auto &[what, value] : {std::pair{"hit rate", forecast.hitRate},
                                    {"rate of resident experts", forecast.readyRate},
                                    {"prefetch recall", forecast.prefetchRecall},
                                    {"prefetch precision", forecast.prefetchPrecision}})
    MOERT_RETURN_IF_ERROR(checkFraction(what, value));
  return {};
}

static Status checkReasons(const Plan &plan) {
  for (size_t i = 0; i < plan.reasons.size(); ++i)
    for (const std::string *text :
         {&plan.reasons[i].decision, &plan.reasons[i].value, &plan.reasons[i].reason})
      MOERT_RETURN_IF_ERROR(checkText(*text, strCat("reason ", i)));
  return {};
}

static Status checkPlan(const Artifact &artifact, const Plan &plan,
                        const std::vector<uint8_t> &programPrefetches) {
  MOERT_RETURN_IF_ERROR(checkText(plan.name, "the name"));
  MOERT_RETURN_IF_ERROR(checkText(plan.preset, "the preset"));
  MOERT_RETURN_IF_ERROR(checkRange("prefill chunk", plan.prefillChunk, 1, kMaxPrefillChunk));
  MOERT_RETURN_IF_ERROR(checkRange("context", plan.contextTokens, 1, artifact.model.maxPositions));
  MOERT_RETURN_IF_ERROR(checkQuotas(artifact, plan));
  MOERT_RETURN_IF_ERROR(checkPins(artifact, plan));
  MOERT_RETURN_IF_ERROR(checkStart(artifact, plan));
  MOERT_RETURN_IF_ERROR(checkPrefetches(artifact, plan, programPrefetches));
  MOERT_RETURN_IF_ERROR(checkWeights(plan.rules));
  MOERT_RETURN_IF_ERROR(checkExchange(artifact, plan));
  MOERT_RETURN_IF_ERROR(checkUpperPart(plan));
  MOERT_RETURN_IF_ERROR(checkMiss(plan).withContext("miss rule"));
  MOERT_RETURN_IF_ERROR(checkLoss(artifact, plan).withContext("loss"));
  if (plan.forecast)
    MOERT_RETURN_IF_ERROR(checkForecast(*plan.forecast).withContext("forecast"));
  return checkReasons(plan);
}

Status validatePlans(const Artifact &artifact) {
  if (artifact.plans.empty())
    return invalidInput("no plans, expected at least 1");
  const std::vector<uint8_t> programPrefetches = prefetchesOf(artifact);
  std::unordered_set<std::string_view> names;
  // 0 means no limit, so it is the largest.
  auto limitOf = [](const Plan &plan) { return plan.budgetBytes - 1; };
  for (size_t i = 0; i < artifact.plans.size(); ++i) {
    const Plan &plan = artifact.plans[i];
    MOERT_RETURN_IF_ERROR(
        checkPlan(artifact, plan, programPrefetches).withContext(strCat("plan ", i)));
    if (plan.name.empty() || !names.insert(plan.name).second)
      return invalidInput("plan ", i, ": the name '", plan.name, "' is empty or taken");
    if (i > 0 && limitOf(plan) > limitOf(artifact.plans[i - 1]))
      return invalidInput("plan ", i, ": its budget of ", plan.budgetBytes,
                          " bytes is larger than the one before, expected the largest first");
  }
  return {};
}

} // namespace moert
