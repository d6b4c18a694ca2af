#include "compiler/plan/VirtualExperts.h"

#include "compiler/plan/DeviceTimes.h"
#include "compiler/plan/GeneticAllotment.h"
#include "compiler/plan/PlanAcceptance.h"
#include "compiler/plan/PlanTrials.h"
#include "compiler/plan/TimedReplay.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

using namespace moert;

namespace moec {

//===-- Frequency -----------------------------------------------------------------------------===//

std::optional<ExchangeTimes> exchangeTimesOf(const PlanProblem &problem) {
  if (!problem.costs || !problem.reads)
    return {};
  ExchangeTimes times;
  uint64_t largest = 0;
  for (size_t layer = 0; layer < problem.recordBytes.size(); ++layer) {
    const StepCosts::Layer &costs = problem.costs->layers[layer];
    times.tokenNs +=
        costs.before.of(1) + costs.beside.of(1) + costs.expert.of(1) * problem.topK[layer];
    for (uint64_t bytes : problem.recordBytes[layer])
      largest = std::max(largest, bytes);
  }
  times.tokenNs += problem.costs->after.of(1);
  times.readNs =
      readNs(*problem.reads, largest, 1).value / problem.costs->contention.readingWhileComputing;
  return times;
}

/// Tokens between exchanges, at most: a disk that slow exchanges nothing that matters.
static constexpr double kMostTokens = 1 << 20;

ExchangeRule fastestExchanges(uint32_t layers, uint64_t stagingRecords,
                              const std::optional<ExchangeTimes> &times) {
  ExchangeRule rule;
  if (layers == 0 || stagingRecords == 0)
    return rule;
  // Reads vary. With all of the time a late one would be waited for every few tokens.
  constexpr double kTimeForReads = 0.75;
  double every = layers, after = 1;
  if (times) {
    every = std::ceil(layers * times->readNs / (kTimeForReads * times->tokenNs));
    after = std::ceil(2 * times->readNs / times->tokenNs);
  }
  after = std::clamp(after, 1.0, kMostTokens);
  // So many promotions are under way at a time: layers * after / every.
  every = std::max({every, after, std::ceil(layers * after / double(stagingRecords))});
  rule.everyTokens = static_cast<uint32_t>(std::min(every, kMostTokens));
  rule.afterTokens = static_cast<uint32_t>(after);
  return rule;
}

/// The fastest rule that the staging pages allow, whatever the device is: promotions hold them
/// while they are under way. Its afterTokens are those of fastestExchanges().
static ExchangeRule mostExchanges(const ExchangeRule &found, uint32_t layers,
                                  uint64_t stagingRecords) {
  ExchangeRule rule = found;
  const double room = std::ceil(layers * double(found.afterTokens) / double(stagingRecords));
  rule.everyTokens =
      std::max(found.afterTokens, static_cast<uint32_t>(std::min(room, kMostTokens)));
  return rule;
}

ProfiledExchanges profileExchanges(const PlanProblem &problem, const PlanSettings &settings,
                                   const ExchangeRule &fastest) {
  const TraceParts parts = partsOf(*problem.trace);
  auto timeOf = [&](uint32_t everyTokens) {
    PlanSettings tried = settings;
    tried.miss.action = MissAction::kMask;
    tried.rules.exchange = fastest;
    tried.rules.exchange.everyTokens = everyTokens;
    const Result<TimedResult> result = replayInTime(problem, tried, {.steps = parts.steps});
    return result.isOk() ? result->meanNs(parts.settling) : std::numeric_limits<double>::infinity();
  };
  ProfiledExchanges found = {fastest, timeOf(0), {}};
  auto isUntouched = [&](uint32_t everyTokens) {
    const double ns = timeOf(everyTokens);
    found.trials.push_back({everyTokens, ns});
    return ns <= found.stillNs * (1 + kTouchedTime);
  };
  constexpr uint32_t kSlowest = 64; // Times fewer exchanges than the fastest rule.
  // The slowest rule is taken even if a token takes longer with it.
  uint32_t good = fastest.everyTokens * kSlowest, tried = good;
  while (isUntouched(tried)) {
    good = tried;
    if (tried == fastest.everyTokens)
      return found;
    tried = std::max(tried / 2, fastest.everyTokens);
  }
  for (uint32_t bad = tried; good > bad + 1;) {
    const uint32_t middle = bad + (good - bad) / 2;
    (isUntouched(middle) ? good : bad) = middle;
  }
  found.rule.everyTokens = good;
  return found;
}

//===-- Quotas --------------------------------------------------------------------------------===//

std::vector<double> inMemoryOf(const CacheShape &shape, const CacheAllotment &allotment) {
  std::vector<double> fractions;
  for (size_t l = 0; l < shape.layers.size(); ++l)
    fractions.push_back(double(allotment.quotaPages[l]) /
                        double(std::max<uint64_t>(1, shape.layers[l].allPages)));
  return fractions;
}

CacheAllotment allotByAccuracy(const AccuracyModel &model, const CacheShape &shape,
                               const CacheAllotment &allotment) {
  uint64_t quotaPages = 0, leastPages = 0;
  for (uint32_t pages : allotment.quotaPages)
    quotaPages += pages;
  for (const CacheShape::Layer &layer : shape.layers)
    leastPages += pagesOf(layer, 1);
  if (leastPages > quotaPages)
    return allotment;
  std::vector<double> inMemory(shape.layers.size());
  const std::function<double(std::span<const uint32_t>)> lossOf =
      [&](std::span<const uint32_t> counts) {
        for (size_t l = 0; l < counts.size(); ++l)
          inMemory[l] = double(counts[l]) / shape.layers[l].experts;
        return model.lossOf(inMemory);
      };
  const ExpertCounts counts = evolveCounts({shape, quotaPages, lossOf});
  CacheAllotment found = allotment;
  uint64_t used = 0;
  for (size_t l = 0; l < counts.size(); ++l) {
    const uint64_t pages = pagesOf(shape.layers[l], counts[l]);
    found.quotaPages[l] = static_cast<uint32_t>(pages);
    used += pages;
  }
  // What makes no record stays with the staging pages.
  found.stagingPages += static_cast<uint32_t>(quotaPages - used);
  return found;
}

static std::string nats(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

static PlanReason takeQuotas(const AccuracyModel &model, const CacheShape &shape,
                             CacheAllotment &allotment) {
  const CacheAllotment even = allotment;
  allotment = allotByAccuracy(model, shape, even);
  return {"quotas", "by the accuracy model",
          strCat("SwapMoE 3.5.2: the genetic algorithm found quotas that are expected to lose ",
                 nats(model.lossOf(inMemoryOf(shape, allotment))), " nats per token, even ones ",
                 nats(model.lossOf(inMemoryOf(shape, even))), "; the model was fitted to ",
                 model.samples(), " measured configurations and explains ",
                 std::lround(100 * model.heldOutR2()), "% of the variance of held-out ones"),
          Origin::kMeasured};
}

//===-- Sets ----------------------------------------------------------------------------------===//

static std::vector<std::vector<uint64_t>> usesOf(const PlanProblem &problem) {
  std::vector<std::vector<uint64_t>> uses;
  for (const std::vector<uint64_t> &records : problem.recordBytes)
    uses.emplace_back(records.size(), 0);
  if (problem.trace)
    for (const RoutingPass &pass : problem.trace->passes)
      for (uint64_t i = pass.begin; i < pass.end; ++i)
        uses[pass.layer][problem.trace->wanted[i]] += problem.trace->uses[i];
  return uses;
}

std::vector<std::vector<uint32_t>> expertsByImportance(const PlanProblem &problem) {
  const std::vector<std::vector<uint64_t>> uses = usesOf(problem);
  std::vector<std::vector<uint32_t>> ordered;
  for (size_t layer = 0; layer < uses.size(); ++layer) {
    auto normOf = [&](uint32_t expert) -> uint64_t {
      return problem.expertNorms.empty() ? kFixedPointOne : problem.expertNorms[layer][expert];
    };
    auto importanceOf = [&](uint32_t expert) {
      return std::pair(uses[layer][expert] * normOf(expert), normOf(expert));
    };
    std::vector<uint32_t> &experts = ordered.emplace_back(uses[layer].size());
    std::iota(experts.begin(), experts.end(), 0);
    std::stable_sort(experts.begin(), experts.end(),
                     [&](uint32_t a, uint32_t b) { return importanceOf(a) > importanceOf(b); });
  }
  return ordered;
}

/// The first experts that fit into the quota, so that the cache begins full.
static std::vector<uint32_t> setOf(const std::vector<uint32_t> &ordered,
                                   const std::vector<uint64_t> &recordBytes, uint64_t pageBytes,
                                   uint64_t quotaPages) {
  std::vector<uint32_t> set;
  for (uint32_t expert : ordered) {
    const uint64_t pages = divideUp(recordBytes[expert], pageBytes);
    if (pages > quotaPages)
      continue;
    quotaPages -= pages;
    set.push_back(expert);
  }
  return set;
}

static uint64_t pinLimitOf(const PlanProblem &problem, const CacheAllotment &allotment,
                           size_t layer) {
  const std::vector<uint64_t> &records = problem.recordBytes[layer];
  const uint64_t largest =
      divideUp(*std::max_element(records.begin(), records.end()), problem.pageBytes);
  const uint64_t quota = allotment.quotaPages[layer];
  return std::min(quota, quota + allotment.stagingPages -
                             std::min(largest, quota + allotment.stagingPages));
}

static PlanReason profiledReason(const ProfiledExchanges &found, Origin origin) {
  std::string tried;
  for (const ExchangeTrial &trial : found.trials)
    tried += strCat(tried.empty() ? "" : ", ", trial.everyTokens, ": ", timeText(trial.tokenNs));
  return {"exchanges", exchangeText(found.rule),
          strCat("SwapMoE 3.5.1: the highest frequency that leaves the time of a token, which is ",
                 timeText(found.stillNs),
                 " without exchanges; with an exchange of each layer in so many tokens it is ",
                 tried),
          worseOf(origin, Origin::kDerived)};
}

static PlanReason exchangeReason(const ExchangeRule &rule, const PlanProblem &problem) {
  const std::optional<ExchangeTimes> times = exchangeTimesOf(problem);
  const std::string value = exchangeText(rule);
  if (!times)
    return {"exchanges", value, "no device was given: one expert is exchanged per token",
            Origin::kAssumed};
  return {"exchanges", value,
          strCat("SwapMoE 3.5.1: the highest frequency that leaves the time of a token; a token "
                 "computes for ",
                 timeText(times->tokenNs), ", and reading an expert takes ",
                 timeText(times->readNs)),
          worseOf(problem.costs->origin, Origin::kDerived)};
}

std::vector<PlanReason> chooseVirtualExperts(Preset preset, const PlanProblem &problem,
                                             PlanSettings &settings) {
  std::vector<PlanReason> reasons;
  if (preset == Preset::kSwapMoe && problem.accuracy)
    reasons.push_back(takeQuotas(*problem.accuracy, shapeOf(problem), settings.allotment));
  const std::vector<std::vector<uint32_t>> ordered = expertsByImportance(problem);
  const std::vector<std::vector<uint64_t>> uses = usesOf(problem);
  const uint64_t tokens = problem.trace ? tokenCount(*problem.trace) : 0;
  settings.startTokens = static_cast<uint32_t>(std::clamp<uint64_t>(tokens, 1, UINT32_MAX));
  uint64_t largestPages = 0;
  for (size_t layer = 0; layer < ordered.size(); ++layer) {
    std::vector<uint32_t> set = setOf(ordered[layer], problem.recordBytes[layer], problem.pageBytes,
                                      settings.allotment.quotaPages[layer]);
    std::vector<uint32_t> &setUses = settings.startUses.emplace_back();
    for (uint32_t expert : set)
      setUses.push_back(
          static_cast<uint32_t>(std::min<uint64_t>(uses[layer][expert], settings.startTokens)));
    for (uint64_t bytes : problem.recordBytes[layer])
      largestPages = std::max(largestPages, divideUp(bytes, problem.pageBytes));
    // Pins leave room for the largest record. Where all experts fit, some need no pin.
    if (preset == Preset::kPruning)
      settings.pinned.push_back(setOf(set, problem.recordBytes[layer], problem.pageBytes,
                                      pinLimitOf(problem, settings.allotment, layer)));
    settings.start.push_back(std::move(set));
  }
  reasons.push_back({"start", "the most important experts",
                     problem.trace
                         ? "by their uses on the calibration text times the norms of their weights"
                         : "there is no trace, so by the norms of their weights",
                     problem.trace ? Origin::kMeasured : Origin::kAssumed});
  if (preset == Preset::kPruning) {
    reasons.push_back({"pinned", "the start",
                       "by definition: the experts in memory are never exchanged",
                       Origin::kStated});
    return reasons;
  }
  const uint64_t stagingRecords =
      settings.allotment.stagingPages / std::max<uint64_t>(1, largestPages);
  const auto layers = static_cast<uint32_t>(ordered.size());
  const ExchangeRule found = fastestExchanges(layers, stagingRecords, exchangeTimesOf(problem));
  settings.rules.exchange.everyTokens = found.everyTokens;
  settings.rules.exchange.afterTokens = found.afterTokens;
  if (!found.exchanges() || problem.scores.empty()) {
    reasons.push_back(exchangeReason(settings.rules.exchange, problem));
    return reasons;
  }
  const ProfiledExchanges profiled = profileExchanges(
      problem, settings, mostExchanges(settings.rules.exchange, layers, stagingRecords));
  settings.rules.exchange = profiled.rule;
  reasons.push_back(profiledReason(profiled, problem.costs->origin));
  return reasons;
}

} // namespace moec
