// An artifact's plans as JSON, every decision in full.
#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/PlanProblem.h"
#include "runtime/base/Checksum.h"
#include "runtime/format/ForecastJson.h"

using namespace moert;

namespace moec {

static void writeLists(JsonWriter &json, const Plan &plan) {
  json.key("pinned").beginArray();
  for (const std::vector<uint32_t> &experts : plan.pinned)
    json.numbers(experts);
  json.endArray();
  json.key("start").beginArray();
  for (const LayerStart &start : plan.start) {
    json.beginObject();
    json.key("experts").numbers(start.experts);
    json.key("uses").numbers(start.uses);
    json.endObject();
  }
  json.endArray();
  json.key("start_tokens").number(plan.startTokens);
}

static void writePrefetches(JsonWriter &json, const Plan &plan) {
  json.key("prefetches").beginArray();
  for (const PrefetchRule &rule : plan.prefetches) {
    json.beginObject();
    json.key("predictor").string(predictorName(rule.predictor));
    json.key("ahead").number(uint32_t(rule.ahead));
    json.key("candidates").number(uint32_t(rule.candidates));
    json.key("reads").number(uint32_t(rule.reads));
    json.key("min_probability").number(double(rule.minProbability) / kFixedPointOne);
    json.endObject();
  }
  json.endArray();
}

static void writeMiss(JsonWriter &json, const MissRule &miss) {
  auto fraction = [](uint32_t number) { return double(number) / kFixedPointOne; };
  json.key("miss").beginObject();
  json.key("action").string(missActionName(miss.action));
  json.key("low_slices").number(uint32_t(miss.lowSlices));
  json.key("wait_up_to").number(fraction(miss.waitUpTo));
  json.key("skip_beyond").number(fraction(miss.skipBeyond));
  json.key("substitute_within").number(fraction(miss.substituteWithin));
  json.endObject();
}

static void writeWeights(JsonWriter &json, const EvictionWeights &weights) {
  auto fraction = [](uint32_t number) { return double(number) / kFixedPointOne; };
  json.key("eviction_weights").beginObject();
  json.key("recency").number(fraction(weights.recency));
  json.key("frequency").number(fraction(weights.frequency));
  json.key("full_frequency").number(fraction(weights.fullFrequency));
  json.key("nearness").number(fraction(weights.nearness));
  json.endObject();
}

static void writeExchange(JsonWriter &json, const Plan &plan) {
  json.key("exchange").beginObject();
  json.key("every_tokens").number(plan.rules.exchange.everyTokens);
  json.key("after_tokens").number(plan.rules.exchange.afterTokens);
  json.key("fade_shift").number(uint32_t(plan.rules.exchange.fadeShift));
  json.endObject();
  json.key("expert_norms").beginArray();
  for (const std::vector<uint32_t> &layer : plan.expertNorms) {
    json.beginArray();
    for (uint32_t norm : layer)
      json.number(double(norm) / kFixedPointOne);
    json.endArray();
  }
  json.endArray();
}

static void writeLoss(JsonWriter &json, const PlanLoss &loss) {
  json.key("loss").beginObject();
  json.key("metric").string(loss.metric);
  json.key("loss").number(loss.loss);
  json.key("upper_bound").number(loss.upperBound);
  json.key("confidence").number(loss.confidence);
  writeQuantile(json, loss.quantile);
  json.key("kl_nats").number(loss.klNats);
  json.key("top_disagreement").number(loss.topDisagreement);
  json.key("units").number(loss.units);
  json.key("documents").number(loss.documents);
  json.key("windows").number(loss.windows);
  json.key("window_tokens").number(loss.windowTokens);
  json.key("texts").beginArray();
  for (const PlanText &text : loss.texts) {
    json.beginObject();
    json.key("name").string(text.name);
    json.key("hash").string(formatChecksum(text.hash));
    json.key("bytes").number(text.bytes);
    json.endObject();
  }
  json.endArray();
  json.endObject();
}

static void writeReasons(JsonWriter &json, const Plan &plan) {
  json.key("reasons").beginArray();
  for (const PlanReason &reason : plan.reasons) {
    json.beginObject();
    json.key("decision").string(reason.decision);
    json.key("value").string(reason.value);
    json.key("reason").string(reason.reason);
    json.key("origin").string(originName(reason.origin));
    json.endObject();
  }
  json.endArray();
}

void writePlans(JsonWriter &json, const Artifact &artifact) {
  json.key("page_bytes").number(artifact.pageBytes);
  json.key("plans").beginArray();
  for (const Plan &plan : artifact.plans) {
    json.beginObject();
    json.key("name").string(plan.name);
    json.key("budget_bytes").number(plan.budgetBytes);
    json.key("context_tokens").number(plan.contextTokens);
    json.key("prefill_chunk_tokens").number(plan.prefillChunk);
    json.key("staging_pages").number(plan.stagingPages);
    json.key("quota_pages").numbers(plan.quotaPages);
    if (!plan.preset.empty())
      json.key("preset").string(plan.preset);
    json.key("eviction").string(evictionName(plan.rules.eviction));
    if (plan.rules.eviction == EvictionPolicy::kWeighted)
      writeWeights(json, plan.rules.weights);
    if (plan.rules.eviction == EvictionPolicy::kImportance)
      writeExchange(json, plan);
    json.key("sharing").string(sharingName(plan.rules.sharing));
    json.key("survival").string(survivalName(plan.rules.survival));
    json.key("base_slices").number(uint32_t(plan.rules.baseSlices));
    json.key("upper_part").number(double(plan.rules.upperPart) / kFixedPointOne);
    writeLists(json, plan);
    writePrefetches(json, plan);
    writeMiss(json, plan.miss);
    if (plan.loss)
      writeLoss(json, *plan.loss);
    if (plan.forecast)
      writeForecast(json, *plan.forecast);
    writeReasons(json, plan);
    json.endObject();
  }
  json.endArray();
}

} // namespace moec
