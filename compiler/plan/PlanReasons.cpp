#include "compiler/plan/PlanReasons.h"

#include "compiler/plan/Presets.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace moert;

namespace moec {

//===-- Cache ---------------------------------------------------------------------------------===//

/// Reasons for the eviction and the quotas.
static std::vector<PlanReason> cacheReasons(Preset preset, EvictionPolicy policy) {
  const PresetRow &row = presetRow(preset);
  const PresetChoice &quotas = row.quotas;
  return {{"eviction", std::string(nameOf(policy)), std::string(row.evictionReason),
           preset == Preset::kAuto ? Origin::kAssumed : Origin::kStated},
          {"quotas", std::string(quotas.value), std::string(quotas.reason), quotas.origin}};
}

/// Without a measured loss.
static void addPromptsReason(Preset preset, std::vector<PlanReason> &reasons) {
  if (preset == Preset::kFate)
    reasons.push_back({std::string(kPromptsReason), "exact",
                       "Fate 4.5 reads the experts that few tokens of a prompt use at low "
                       "precision, as many as a loss permits: moec replan with --accuracy-loss, "
                       "--reference and --eval-text measures it",
                       Origin::kStated});
}

//===-- Prefetches with a trace ---------------------------------------------------------------===//

static PlanReason noPrefetchReason(Preset preset) {
  if (preset == Preset::kAuto || predictorOf(preset).predictor != Predictor::kOff)
    return {"prefetches", "none", "nothing was searched: that takes a trace and a device",
            Origin::kAssumed};
  return {"prefetches", "none", "the preset prefetches nothing", Origin::kStated};
}

static bool isKnown(const PlanProblem &problem, const PrefetchRule &rule) {
  for (uint32_t layer = 0; layer < problem.recordBytes.size(); ++layer)
    if (knownCandidates(problem, rule, layer) > 0)
      return true;
  return false;
}

/// "2 reads a layer", "1 to 3 reads a layer", over the layers that are prefetched.
static std::string readsText(const std::vector<PrefetchRule> &prefetches) {
  uint32_t least = UINT16_MAX, most = 0;
  for (const PrefetchRule &rule : prefetches)
    if (rule.predictor != Predictor::kOff) {
      least = std::min<uint32_t>(least, rule.reads);
      most = std::max<uint32_t>(most, rule.reads);
    }
  const std::string count = least == most ? strCat(most) : strCat(least, " to ", most);
  return strCat(count, most == 1 ? " read a layer" : " reads a layer");
}

/// `prefetches` is per layer, or empty if no layer has any.
static PlanReason prefetchReason(Preset preset, const PlanProblem &problem,
                                 const std::vector<PrefetchRule> &prefetches) {
  const PrefetchRule asked = predictorOf(preset);
  if (asked.predictor == Predictor::kOff)
    return noPrefetchReason(preset);
  const std::string name(nameOf(asked.predictor));
  const Origin origin = worseOf(problem.costs->origin, Origin::kDerived);
  if (!isKnown(problem, asked))
    return {"prefetches", "none", strCat("nothing is known of prefetches by ", name), origin};
  if (asked.predictor == Predictor::kAdaptiveGate) {
    if (prefetches.empty())
      return {"prefetches", "none", "reading on demand alone is not slower", origin};
    return {"prefetches", strCat(name, ", ", readsText(prefetches)),
            "HOBBIT 3.3: the experts of a token, as predicted, that are missing", Origin::kStated};
  }
  double inTime = 0;
  for (uint32_t layer = 0; layer < problem.recordBytes.size(); ++layer)
    inTime = std::max(inTime, readsBetweenRouters(problem, layer));
  const std::string time = strCat("from one router to the next there is time to read at most ",
                                  std::round(inTime * 100) / 100,
                                  std::round(inTime * 100) == 100 ? " expert" : " experts");
  if (prefetches.empty())
    return {"prefetches", "none", time, origin};
  return {"prefetches", strCat(name, ", ", readsText(prefetches)), time, origin};
}

std::vector<PlanReason> reasonsOf(Preset preset, const PlanProblem &problem,
                                  const PlanSettings &settings) {
  std::vector<PlanReason> reasons = cacheReasons(preset, settings.rules.eviction);
  reasons.push_back(prefetchReason(preset, problem, settings.prefetches));
  addPromptsReason(preset, reasons);
  if (preset == Preset::kEdgeMoe)
    reasons.push_back({"start", "layer by layer",
                       "EdgeMoE III-C: the buffer is filled in the order of the layers",
                       Origin::kStated});
  return reasons;
}

//===-- Prefetches without a trace ------------------------------------------------------------===//

static PlanReason predictorReason(Preset preset, PrefetchLimit limit) {
  const PrefetchRule rule = predictorOf(preset);
  if (limit == PrefetchLimit::kNoPreset)
    return noPrefetchReason(preset);
  if (limit == PrefetchLimit::kNoTable)
    return {"prefetches", "none",
            "there is no activation-path table, which calibration makes: compile with "
            "--calibration-text or --calibration, or replan with --calibration",
            Origin::kDerived};
  return {"prefetches", strCat(nameOf(rule.predictor), ", ", uint32_t(rule.ahead), " ahead"),
          std::string(presetRow(preset).predictorReason), Origin::kStated};
}

static std::string_view limitText(PrefetchLimit limit) {
  switch (limit) {
  case PrefetchLimit::kNoPrediction:
    return "no earlier layer can predict it";
  case PrefetchLimit::kAllResident:
    return "all experts stay in memory";
  case PrefetchLimit::kNoStaging:
    return "the staging pages do not hold another expert";
  case PrefetchLimit::kNoTime:
    return "reading an expert takes longer than computing until its router runs";
  case PrefetchLimit::kNone:
  case PrefetchLimit::kNoPreset:
  case PrefetchLimit::kNoTable:
    break;
  }
  return "";
}

static std::string oneDecimal(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

static Origin originOf(const DecidedPrefetch &made) {
  if (made.readsInTime)
    return made.readsInTime->origin;
  const bool isDerived =
      made.limit == PrefetchLimit::kNoPrediction || made.limit == PrefetchLimit::kAllResident;
  return isDerived ? Origin::kDerived : Origin::kAssumed;
}

/// The reason of neighbouring layers with the same rule and limit, the first being layer `first`.
static PlanReason layersReason(std::span<const DecidedPrefetch> layers, size_t first,
                               std::string_view device) {
  const DecidedPrefetch &made = layers.front();
  const bool isOff = made.rule.predictor == Predictor::kOff;
  PlanReason reason;
  reason.decision = layers.size() == 1
                        ? strCat("prefetch of MoE layer ", first)
                        : strCat("prefetch of MoE layers ", first, "-", first + layers.size() - 1);
  reason.value =
      isOff ? "off" : strCat(made.rule.reads, " of ", made.rule.candidates, " likeliest");
  reason.origin = originOf(made);
  reason.reason = limitText(made.limit);
  if (made.readsInTime) {
    double least = made.readsInTime->value, most = least;
    for (const DecidedPrefetch &layer : layers) {
      least = std::min(least, layer.readsInTime->value);
      most = std::max(most, layer.readsInTime->value);
      reason.origin = worseOf(reason.origin, layer.readsInTime->origin);
    }
    const std::string low = oneDecimal(least), high = oneDecimal(most);
    reason.reason += strCat(isOff ? "; " : "", low, low == high ? "" : strCat(" to ", high),
                            " reads take as long as experts, attention and router on ", device);
  } else if (!isOff) {
    reason.reason = "no device was given: as many as the predictor's paper reads";
  }
  return reason;
}

std::vector<PlanReason> reasonsOf(Preset preset, const PresetPrefetches &prefetches,
                                  std::string_view device) {
  std::vector<PlanReason> reasons = cacheReasons(preset, rulesOf(preset).eviction);
  reasons.push_back(predictorReason(preset, prefetches.limit));
  addPromptsReason(preset, reasons);
  const std::span<const DecidedPrefetch> layers = prefetches.layers;
  for (size_t first = 0, end = 0; first < layers.size(); first = end) {
    for (end = first + 1; end < layers.size() && layers[end].rule == layers[first].rule &&
                          layers[end].limit == layers[first].limit;)
      ++end;
    reasons.push_back(layersReason(layers.subspan(first, end - first), first, device));
  }
  return reasons;
}

void eraseReasons(std::string_view decision, std::vector<PlanReason> &reasons) {
  std::erase_if(reasons,
                [decision](const PlanReason &reason) { return reason.decision == decision; });
}

} // namespace moec
