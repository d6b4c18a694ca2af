// What plans and caches would gain from perfect knowledge of future tokens: upper limits for
// prefetching and eviction.
//
//     foresight_bench ARTIFACT DEVICE.yaml [BUDGET...]
//
// For each budget (25%, 50%, 75%) two tables:
//
//   Prefetches: plans found by the search of `moec replan`, first with the routers' predictions for
//   later layers, then with error-free predictions one, two and three layers ahead. Shows the ready
//   rate, the hit rate and the forecast time.
//
//   Evictions: hits of a cache of that fraction of each layer's experts on the artifact's trace,
//   its windows one after the other, decoded token by token: for LRU, the reuse-distance score, the
//   same score with an oracle for the demand of the next 1, 2, 4 or 8 tokens in every layer (of the
//   experts in demand, the one demanded last is evicted last), and Belady's rule; with the fraction
//   of the gap from LRU to Belady that each closes.
#include "compiler/plan/MakePlans.h"
#include "compiler/plan/PlanForecast.h"
#include "compiler/plan/PlanSearch.h"
#include "compiler/planning/Replan.h"
#include "compiler/profile/TracedRouting.h"
#include "runtime/policy/Eviction.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

using namespace moec;
using namespace moert;

namespace {

//===-- Prefetches
//-------------------------------------------------------------------------------===//

/// The trace with error-free gates for this many layers ahead, and none for later layers.
PlanTrace withPerfectGates(PlanTrace trace, size_t layersAhead) {
  for (size_t layer = 0; layer < trace.layers.size(); ++layer) {
    std::vector<TracedPredictions> &ahead = trace.layers[layer].ahead;
    ahead.resize(std::min(ahead.size(), layersAhead));
    for (size_t i = 0; i < ahead.size(); ++i) {
      const TracedLayer &later = trace.layers[layer + 1 + i];
      ahead[i] = {later.topK, later.chosen, std::vector<uint8_t>(later.chosen.size(), UINT8_MAX)};
    }
  }
  return trace;
}

Status printPrefetches(const PlannedArtifact &planned, const Plan &plan, const PlanTrace &trace,
                       const char *name) {
  MOERT_ASSIGN_OR_RETURN(const KnownRouting routing, routingOf(trace, {}, planned.facts));
  const PlanInputs inputs(planned.facts, routing, *planned.device);
  const uint64_t pages = poolPagesOf(plan);
  MOERT_ASSIGN_OR_RETURN(SearchedPlan found, searchPlan(inputs.problem(pages)));
  MOERT_ASSIGN_OR_RETURN(
      const Forecast forecast,
      forecastOf(inputs.forecastProblem(pages), found.planned.settings, routing.decidingSteps()));
  std::printf("  %-28s there %5.1f%%, hits %5.1f%%, %.2f ms a token\n", name,
              100 * forecast.readyRate, 100 * forecast.hitRate, forecast.tokenNs / 1e6);
  std::fflush(stdout);
  return {};
}

//===-- Evictions -----------------------------------------------------------------------------===//

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
/// That no hits are counted of, with an empty cache to begin with.
constexpr uint64_t kWarmUpTokens = 256;

/// One layer, and when its experts are demanded next.
class Layer {
public:
  explicit Layer(const TracedLayer &traced) : layer(traced), next(traced.chosen.size(), kNever) {
    std::vector<uint64_t> later(layer.experts, kNever);
    for (uint64_t i = next.size(); i-- > 0;) {
      next[i] = later[layer.chosen[i]];
      later[layer.chosen[i]] = i / layer.topK;
    }
  }

  /// Misses after the warm-up. known: number of next tokens whose experts are known.
  uint64_t misses(EvictionPolicy policy, uint64_t capacity, uint64_t known) const {
    struct Entry {
      ExpertHistory history;
      uint64_t nextUse = kNever;
      bool isHeld = false;
    };
    std::vector<Entry> entries(layer.experts);
    const FrequencyStep step(1);
    uint64_t missed = 0;
    for (uint64_t token = 0; token < next.size() / layer.topK; ++token) {
      for (Entry &entry : entries)
        step.fade(entry.history);
      for (uint64_t i = token * layer.topK; i < (token + 1) * layer.topK; ++i) {
        Entry &entry = entries[layer.chosen[i]];
        missed += !entry.isHeld && token >= kWarmUpTokens;
        step.add(entry.history, 1);
        entry.history.lastUse = token + 1;
        entry.history.rank = static_cast<uint32_t>(i % layer.topK);
        entry.nextUse = next[i];
        entry.isHeld = true;
      }
      std::vector<EvictionCandidate> held;
      for (uint32_t expert = 0; expert < layer.experts; ++expert)
        if (const Entry &entry = entries[expert]; entry.isHeld) {
          const bool isKnown = entry.nextUse != kNever && entry.nextUse - token <= known;
          // Known demand outranks any score.
          const uint64_t value = isKnown ? kNever - (entry.nextUse - token)
                                         : keepingValue(policy, entry.history, {}) / 2;
          held.push_back({expert, entry.history.lastUse, entry.history.rank, value});
        }
      std::sort(held.begin(), held.end(), leavesBefore);
      for (uint64_t i = 0; i + capacity < held.size(); ++i)
        entries[held[i].expert].isHeld = false;
    }
    return missed;
  }

  uint64_t experts() const { return layer.experts; }
  uint64_t wanted() const { return next.size() - kWarmUpTokens * layer.topK; }

private:
  const TracedLayer &layer;
  std::vector<uint64_t> next; // [tokens][topK]: the next token that demands this expert.
};

void printEvictions(const PlanTrace &trace, double cachedFraction) {
  const std::vector<Layer> layers(trace.layers.begin(), trace.layers.end());
  auto hits = [&](EvictionPolicy policy, uint64_t known) {
    uint64_t missed = 0, wanted = 0;
    for (const Layer &layer : layers) {
      const double capacity = cachedFraction * static_cast<double>(layer.experts());
      missed += layer.misses(policy, static_cast<uint64_t>(std::llround(capacity)), known);
      wanted += layer.wanted();
    }
    return 1 - static_cast<double>(missed) / static_cast<double>(wanted);
  };
  const double lru = hits(EvictionPolicy::kLru, 0), best = hits(EvictionPolicy::kLru, kNever);
  auto print = [&](const std::string &name, double hit) {
    std::printf("  %-28s hits %5.1f%%, %3.0f%% of the way\n", name.c_str(), 100 * hit,
                best > lru ? 100 * (hit - lru) / (best - lru) : 0);
  };
  print("LRU", lru);
  print("reuse-distance", hits(EvictionPolicy::kReuseDistance, 0));
  for (uint64_t known : {1, 2, 4, 8})
    print(strCat("knowing ", known, known == 1 ? " token" : " tokens"),
          hits(EvictionPolicy::kReuseDistance, known));
  print("Belady", best);
  std::fflush(stdout);
}

Status run(const ReplanRequest &request) {
  MOERT_ASSIGN_OR_RETURN(PlannedArtifact planned, planArtifact(request, {}));
  if (!planned.trace || planned.trace->tokens() <= kWarmUpTokens)
    return invalidInput(request.artifactPath,
                        ": has no trace of its calibration, or one of no more than ", kWarmUpTokens,
                        " tokens");
  for (const Plan &plan : planned.artifact.plans) {
    std::printf("%s\n prefetches\n", plan.name.c_str());
    MOERT_RETURN_IF_ERROR(printPrefetches(planned, plan, *planned.trace, "as routers say"));
    for (size_t ahead : {1, 2, 3})
      MOERT_RETURN_IF_ERROR(printPrefetches(planned, plan, withPerfectGates(*planned.trace, ahead),
                                            strCat("right, up to ", ahead, " ahead").c_str()));
    std::printf(" evictions\n");
    printEvictions(*planned.trace, std::strtod(plan.name.c_str(), nullptr) / 100);
  }
  return {};
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: foresight_bench ARTIFACT DEVICE.yaml [BUDGET%%...]\n");
    return 2;
  }
  ReplanRequest request;
  request.artifactPath = argv[1];
  request.devicePath = argv[2];
  request.budgets.assign(argv + 3, argv + argc);
  if (request.budgets.empty())
    request.budgets = {"25%", "50%", "75%"};
  for (const std::string &budget : request.budgets)
    if (!budget.ends_with('%')) {
      std::fprintf(stderr, "foresight_bench: budget '%s', expected a percentage such as 25%%\n",
                   budget.c_str());
      return 2;
    }
  const Status status = run(request);
  if (!status.isOk())
    std::fprintf(stderr, "foresight_bench: %s\n", status.message().c_str());
  return exitCode(status);
}
