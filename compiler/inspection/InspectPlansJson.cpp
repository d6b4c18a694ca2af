// An artifact's plans as JSON, every decision in full.
#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/PlanProblem.h"
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
    json.key("sharing").string(sharingName(plan.rules.sharing));
    json.key("survival").string(survivalName(plan.rules.survival));
    writeLists(json, plan);
    writePrefetches(json, plan);
    if (plan.forecast)
      writeForecast(json, *plan.forecast);
    writeReasons(json, plan);
    json.endObject();
  }
  json.endArray();
}

} // namespace moec
