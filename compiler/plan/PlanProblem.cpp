#include "compiler/plan/PlanProblem.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

using namespace moert;

namespace moec {

//===-- The problem ---------------------------------------------------------------------------===//

static uint32_t layerCount(const PlanProblem &problem) {
  return static_cast<uint32_t>(problem.trace->layerExperts.size());
}

// Steps are turns of all layers in their order, which is what replays and predictions count on.
static Status checkTrace(const RoutingTrace &trace) {
  const size_t layers = trace.layerExperts.size();
  if (layers == 0 || trace.passes.empty() || trace.passes.size() % layers != 0)
    return invalidInput("a trace of ", trace.passes.size(), " turns of ", layers,
                        " MoE layers is not one of whole steps");
  if (trace.wanted.size() != trace.uses.size())
    return invalidInput("the trace wants ", trace.wanted.size(), " experts and counts the uses of ",
                        trace.uses.size());
  for (size_t p = 0; p < trace.passes.size(); ++p) {
    const RoutingPass &pass = trace.passes[p], &first = trace.passes[p - p % layers];
    if (pass.layer != p % layers || pass.tokens != first.tokens || pass.tokens == 0)
      return invalidInput("turn ", p, " of the trace is of MoE layer ", pass.layer, " and ",
                          pass.tokens, " tokens, expected layer ", p % layers, " and ",
                          std::max(1u, first.tokens), " tokens");
    if (pass.begin > pass.end || pass.end > trace.wanted.size())
      return invalidInput("turn ", p, " of the trace is not inside of it");
    for (uint64_t i = pass.begin; i < pass.end; ++i)
      if (trace.wanted[i] >= trace.layerExperts[pass.layer])
        return invalidInput("turn ", p, " of the trace wants expert ", trace.wanted[i],
                            " of MoE layer ", pass.layer, ", which has ",
                            trace.layerExperts[pass.layer]);
  }
  return {};
}

static Status checkLayers(const PlanProblem &problem) {
  const size_t layers = layerCount(problem);
  if (problem.recordBytes.size() != layers || problem.topK.size() != layers ||
      problem.costs->layers.size() != layers)
    return invalidInput("the trace has ", layers, " MoE layers, there are records of ",
                        problem.recordBytes.size(), ", choices of ", problem.topK.size(),
                        " and costs of ", problem.costs->layers.size());
  if (problem.pageBytes == 0)
    return invalidInput("a plan with pages of no bytes");
  uint64_t largestPages = 0;
  for (size_t l = 0; l < layers; ++l) {
    const std::vector<uint64_t> &records = problem.recordBytes[l];
    const uint32_t experts = problem.trace->layerExperts[l];
    if (records.size() != experts || std::count(records.begin(), records.end(), 0) > 0)
      return invalidInput("MoE layer ", l, " has ", experts, " experts in the trace and ",
                          records.size(), " records, none of which may be empty");
    if (problem.topK[l] == 0 || problem.topK[l] > experts)
      return invalidInput("MoE layer ", l, " chooses ", problem.topK[l], " of ", experts,
                          " experts");
    for (uint64_t bytes : records)
      largestPages = std::max(largestPages, divideUp(bytes, problem.pageBytes));
  }
  if (largestPages > problem.poolPages || problem.poolPages > UINT32_MAX)
    return invalidInput("a pool of ", problem.poolPages, " pages, expected ", largestPages,
                        " for the largest record to ", UINT32_MAX);
  return {};
}

static bool isTime(double ns) {
  return std::isfinite(ns) && ns >= 0;
}
static bool areTimes(std::span<const double> costs) {
  return std::ranges::all_of(costs, [](double ns) { return isTime(ns); });
}
static bool isTime(const TokenCost &cost) {
  return isTime(cost.firstNs) && isTime(cost.furtherNs);
}

static Status checkTimes(const PlanProblem &problem) {
  for (size_t l = 0; l < problem.costs->layers.size(); ++l) {
    const StepCosts::Layer &layer = problem.costs->layers[l];
    if (!isTime(layer.before) || !isTime(layer.beside) || !isTime(layer.expert) ||
        !areTimes(layer.predictNs) || !isTime(layer.checks.dispatchNs) ||
        !areTimes(layer.checks.sliceNs))
      return invalidInput("a cost of MoE layer ", l, " is not a time");
    if (layer.checks.slices == 0 || layer.checks.sliceNs.empty())
      return invalidInput("the checks of MoE layer ", l, " have ", layer.checks.slices,
                          " slices and ", layer.checks.sliceNs.size(),
                          " threads, expected at least 1 of each");
  }
  if (!isTime(problem.costs->after))
    return invalidInput("the cost after the last MoE layer is not a time");
  const Contention &contention = problem.costs->contention;
  for (double fraction : {contention.readingWhileComputing, contention.computingWhileReading})
    if (!(fraction > 0 && fraction <= 1))
      return invalidInput("reading and computing leave each other a fraction of ", fraction,
                          ", expected more than 0 and at most 1");
  if (!isTime(contention.submitNsPerByte) || !isTime(contention.wakeNs))
    return invalidInput("the cost of beginning a read is not a time");
  const ReadTable &reads = *problem.reads;
  if (reads.sizes.empty() || reads.depths.empty() ||
      reads.bytesPerSecond.size() != reads.sizes.size() * reads.depths.size())
    return invalidInput("the device's table of reads has ", reads.bytesPerSecond.size(),
                        " rates of ", reads.sizes.size(), " sizes and ", reads.depths.size(),
                        " depths");
  for (const Quantity &rate : reads.bytesPerSecond)
    if (!std::isfinite(rate.value) || rate.value <= 0)
      return invalidInput("the device reads ", rate.value, " bytes/s");
  uint64_t before = 0;
  for (const ReusedMemory &reused : reads.reused) {
    if (!std::isfinite(reused.factor.value) || reused.factor.value <= 0)
      return invalidInput("the device reads into reused memory at ", reused.factor.value,
                          " of its rates");
    if (reused.bytes <= before || reused.bytes >= kLongUnusedBytes)
      return invalidInput("the device has a rate for memory reused after ", reused.bytes,
                          " bytes, expected more than ", before, " and less than ",
                          kLongUnusedBytes);
    before = reused.bytes;
  }
  return {};
}

/// Whether a predictor can speak of a layer so many MoE layers before its turn.
static bool isInReach(Predictor predictor, uint32_t layer, uint32_t ahead) {
  switch (predictor) {
  case Predictor::kGate:
  case Predictor::kAdaptiveGate:
    return ahead >= 1 && ahead <= kMostAhead && ahead <= layer;
  case Predictor::kPaths:
    return ahead == 1 && layer >= 1; // The second MoE layer has paths from the first alone.
  case Predictor::kOff:
    break;
  }
  return false;
}

static Status checkPredictions(const PlanProblem &problem, uint64_t tokens) {
  for (size_t i = 0; i < problem.predictions.size(); ++i) {
    const LayerPredictions &made = problem.predictions[i];
    if (made.layer >= layerCount(problem) || !isInReach(made.predictor, made.layer, made.ahead))
      return invalidInput("predictions of MoE layer ", made.layer, " from ", made.ahead,
                          " layers before it, of ", layerCount(problem));
    const uint32_t experts = problem.trace->layerExperts[made.layer];
    if (made.perToken > experts || made.candidates.size() < tokens * made.perToken ||
        (made.perToken == 0 ? !made.candidates.empty()
                            : made.candidates.size() % made.perToken != 0))
      return invalidInput("predictions of MoE layer ", made.layer, " have ", made.candidates.size(),
                          " candidates, ", made.perToken, " a token, expected those of ", tokens,
                          " tokens and ", experts, " experts");
    for (const PrefetchCandidate &candidate : made.candidates)
      if (candidate.expert >= experts || candidate.probability > kFixedPointOne)
        return invalidInput("predictions of MoE layer ", made.layer, " name expert ",
                            candidate.expert, " of ", experts, " with a probability of ",
                            candidate.probability);
    for (size_t j = 0; j < i; ++j)
      if (problem.predictions[j].predictor == made.predictor &&
          problem.predictions[j].layer == made.layer && problem.predictions[j].ahead == made.ahead)
        return invalidInput("predictions of MoE layer ", made.layer, " from ", made.ahead,
                            " layers before it are there twice");
  }
  return {};
}

static Status checkScores(const PlanProblem &problem, uint64_t tokens) {
  const size_t layers = layerCount(problem);
  for (size_t size :
       {problem.scores.size(), problem.sliceEnds.size(), problem.lowCopySlices.size()})
    if (size != 0 && size != layers)
      return invalidInput("slices or scores of ", size, " MoE layers, expected ", layers,
                          " or none");
  for (size_t l = 0; l < problem.scores.size(); ++l) {
    const LayerScores &scores = problem.scores[l];
    const uint32_t experts = problem.trace->layerExperts[l];
    if (scores.topK != problem.topK[l] || scores.tokens() < tokens ||
        scores.weights.size() != scores.chosen.size() || scores.perToken > experts ||
        scores.likeliest.size() != scores.likelihoods.size() ||
        scores.likeliest.size() < tokens * scores.perToken)
      return invalidInput("MoE layer ", l, " has scores of ", scores.tokens(), " tokens, ",
                          scores.topK, " chosen, ", scores.perToken, " likeliest, expected ",
                          tokens, " and ", problem.topK[l], " of ", experts, " experts");
    for (const std::vector<uint16_t> *list : {&scores.chosen, &scores.likeliest})
      for (uint16_t expert : *list)
        if (expert >= experts)
          return invalidInput("the scores of MoE layer ", l, " name expert ", expert, ", it has ",
                              experts);
  }
  return {};
}

Status check(const PlanProblem &problem) {
  if (!problem.trace || !problem.reads || !problem.costs)
    return invalidInput("a plan needs a trace, a device and costs");
  MOERT_RETURN_IF_ERROR(checkTrace(*problem.trace));
  MOERT_RETURN_IF_ERROR(checkLayers(problem));
  MOERT_RETURN_IF_ERROR(checkTimes(problem));
  MOERT_RETURN_IF_ERROR(checkScores(problem, tokenCount(*problem.trace)));
  return checkPredictions(problem, tokenCount(*problem.trace));
}

CacheShape shapeOf(const PlanProblem &problem) {
  CacheShape shape;
  for (size_t l = 0; l < problem.recordBytes.size(); ++l)
    shape.layers.push_back(cacheLayerOf(problem.recordBytes[l],
                                        static_cast<uint32_t>(problem.pageBytes), problem.topK[l]));
  return shape;
}

std::vector<EvictionPolicy> searchedPolicies(ScoreSearch search) {
  std::vector<EvictionPolicy> policies;
  for (size_t i = 0; i < kEvictionScores.size(); ++i)
    if (kEvictionScores[i].search >= search)
      policies.push_back(static_cast<EvictionPolicy>(i));
  return policies;
}

std::string exchangeText(const ExchangeRule &exchange) {
  if (!exchange.exchanges())
    return "none";
  return strCat("one expert of each layer in ", exchange.everyTokens, " tokens, which takes part ",
                exchange.afterTokens, " later; importance fades by 1/", 1u << exchange.fadeShift,
                " per token");
}

std::string prefetchText(const PrefetchRule &rule) {
  if (rule.predictor == Predictor::kOff)
    return "none";
  const bool isRange = rule.ahead > 1 && rule.predictsFrom(1);
  std::string text =
      strCat(nameOf(rule.predictor), isRange ? ", 1 to " : ", ", uint32_t(rule.ahead), " ahead, ",
             rule.reads, " of ", rule.candidates, " likeliest");
  if (rule.minProbability == 0)
    return text;
  char percent[16];
  std::snprintf(percent, sizeof percent, "%.1f", 100.0 * rule.minProbability / kFixedPointOne);
  return strCat(text, " of ", percent, "% or more");
}

uint64_t tokenCount(const RoutingTrace &trace) {
  uint64_t tokens = 0;
  for (const RoutingPass &pass : trace.passes)
    tokens += pass.layer == 0 ? pass.tokens : 0;
  return tokens;
}

const LayerPredictions *findPredictions(const PlanProblem &problem, const PrefetchRule &rule,
                                        uint32_t layer, uint32_t ahead) {
  const Predictor predictor = usesGate(rule.predictor) ? Predictor::kGate : rule.predictor;
  for (const LayerPredictions &made : problem.predictions)
    if (made.predictor == predictor && made.layer == layer && made.ahead == ahead)
      return &made;
  return nullptr;
}

uint32_t knownCandidates(const PlanProblem &problem, const PrefetchRule &rule, uint32_t layer) {
  uint32_t least = UINT32_MAX;
  for (uint32_t ahead = 1; ahead <= kMostAhead; ++ahead)
    if (rule.predictsFrom(ahead)) {
      const LayerPredictions *made = findPredictions(problem, rule, layer, ahead);
      least = std::min(least, made ? made->perToken : 0);
    }
  return least == UINT32_MAX ? 0 : least; // It predicts nothing.
}

//===-- Settings ------------------------------------------------------------------------------===//

bool hasSlices(const PlanProblem &problem) {
  return std::ranges::any_of(problem.sliceEnds, [](const auto &layer) {
    return std::ranges::any_of(layer, [](const auto &ends) { return ends.size() > 1; });
  });
}

bool hasNestedSlices(const PlanProblem &problem) {
  for (size_t layer = 0; layer < problem.sliceEnds.size(); ++layer)
    for (size_t expert = 0; expert < problem.sliceEnds[layer].size(); ++expert)
      if (problem.sliceEnds[layer][expert].size() > 1 &&
          (problem.lowCopySlices.empty() || problem.lowCopySlices[layer][expert] == 0))
        return true;
  return false;
}

void setSlices(const PlanProblem &problem, size_t moeLayer, ReplayLayer &layer) {
  layer.sliceEnds = problem.sliceEnds[moeLayer];
  if (!problem.lowCopySlices.empty())
    layer.lowCopySlices = problem.lowCopySlices[moeLayer];
}

ReplayCache replayCacheOf(const PlanProblem &problem, const PlanSettings &settings) {
  ReplayCache cache;
  cache.pageBytes = problem.pageBytes;
  cache.stagingPages = settings.allotment.stagingPages;
  cache.rules = settings.rules;
  for (size_t l = 0; l < problem.recordBytes.size(); ++l) {
    ReplayLayer &layer = cache.layers.emplace_back();
    layer.recordBytes = problem.recordBytes[l];
    if (settings.miss.isLossy())
      setSlices(problem, l, layer);
    layer.quotaPages = settings.allotment.quotaPages[l];
    if (!settings.pinned.empty())
      layer.pinned = settings.pinned[l];
    if (!settings.start.empty())
      layer.start = settings.start[l];
    if (!settings.startUses.empty())
      layer.startUses = settings.startUses[l];
    layer.startTokens = settings.startTokens;
  }
  return cache;
}

static Status checkPrefetch(const PlanProblem &problem, const PrefetchRule &rule, uint32_t layer) {
  if (rule.predictor == Predictor::kOff)
    return {};
  if (!isInReach(rule.predictor, layer, rule.ahead))
    return invalidInput("MoE layer ", layer, " cannot be prefetched ", uint32_t(rule.ahead),
                        " layers before it");
  const uint32_t known = knownCandidates(problem, rule, layer);
  if (known == 0)
    return invalidInput("nothing is known of prefetches of MoE layer ", layer, " from ",
                        uint32_t(rule.ahead), " layers before it");
  if (rule.candidates == 0 || rule.candidates > known || rule.reads == 0 ||
      rule.minProbability > kFixedPointOne)
    return invalidInput("MoE layer ", layer, " is prefetched with ", rule.candidates,
                        " candidates, of which ", rule.reads, " are read; ", known, " are known");
  return {};
}

Status verify(const PlanProblem &problem, const PlanSettings &settings) {
  const size_t layers = layerCount(problem);
  const CacheAllotment &allotment = settings.allotment;
  if (allotment.quotaPages.size() != layers)
    return invalidInput("quotas of ", allotment.quotaPages.size(), " MoE layers, expected ",
                        layers);
  if (allotment.totalPages() > problem.poolPages)
    return invalidInput("quotas and staging have ", allotment.totalPages(), " pages, the pool has ",
                        problem.poolPages);
  auto isPerLayer = [&](size_t size) { return size == 0 || size == layers; };
  if (!isPerLayer(settings.pinned.size()) || !isPerLayer(settings.start.size()) ||
      !isPerLayer(settings.startUses.size()) || !isPerLayer(settings.prefetches.size()))
    return invalidInput("pins of ", settings.pinned.size(), " MoE layers, a start of ",
                        settings.start.size(), " and prefetches of ", settings.prefetches.size(),
                        ", expected ", layers, " or none");
  for (uint32_t layer = 0; layer < settings.prefetches.size(); ++layer)
    MOERT_RETURN_IF_ERROR(checkPrefetch(problem, settings.prefetches[layer], layer));
  if (settings.miss.changesDecoding() && problem.scores.empty())
    return invalidInput("the miss rule ", missRuleText(settings.miss),
                        " decides by the routers' scores, which the trace does not have");
  if (settings.miss.isLossy() && problem.sliceEnds.empty())
    return invalidInput("the miss rule ", missRuleText(settings.miss),
                        " needs the slices of the records");
  // A cache made of them checks the rest.
  return CacheReplay::create(replayCacheOf(problem, settings)).status();
}

} // namespace moec
