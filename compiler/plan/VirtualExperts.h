// SwapMoE's plans: a set of virtual experts per layer, the only ones that tokens use, which is
// exchanged by importance while a model decodes (Kong et al. 2023, sections 3.2, 3.3 and 3.5);
// and `pruning`, its baseline, whose set is fixed.
#pragma once

#include "compiler/plan/AccuracyModel.h"
#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/PresetRules.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace moec {

// The functions below take problems of which only records, topK and pageBytes are known for
// certain. Without norms all are equal; without a trace or scores, uses or replays with exchanges
// are unknown; without costs and reads, times are; without an accuracy model, quotas are even.

/// What a step leaves the disk.
struct ExchangeTimes {
  double tokenNs = 0; // Computing a token whose experts are in memory.
  double readNs = 0;  // Reading the largest expert while tokens are computed.
};

/// Unknown without a device.
std::optional<ExchangeTimes> exchangeTimesOf(const PlanProblem &problem);

/// The highest frequency of exchanges that leaves a token's time unchanged. The paper raises the
/// frequency until latency grows, which is where the disk has no time left beside computing; here
/// reads take at most three quarters of that time. Each exchange has twice the time that a read
/// takes alone, so that two may be under way, but at most a round of exchanges. No more promotions
/// are read at a time than `stagingRecords` of the largest size hold. Without times, one expert is
/// exchanged per token, and joins with the next one.
moert::ExchangeRule fastestExchanges(uint32_t layers, uint64_t stagingRecords,
                                     const std::optional<ExchangeTimes> &times);

struct ExchangeTrial {
  uint32_t everyTokens = 0;
  double tokenNs = 0;
};
struct ProfiledExchanges {
  moert::ExchangeRule rule;
  double stillNs = 0;                // A token without exchanges.
  std::vector<ExchangeTrial> trials; // In the order in which they were tried.
};
/// How much longer a token may take: reads take the processor a little time, however few they are.
constexpr double kTouchedTime = 0.01;
/// The highest frequency as the paper finds it: the timed replay tries from a low one to a high one
/// until a token takes longer than without exchanges. `fastest` is the rule that staging pages
/// allow; only its everyTokens is changed. The settings are ones that verify() accepts.
ProfiledExchanges profileExchanges(const PlanProblem &problem, const PlanSettings &settings,
                                   const moert::ExchangeRule &fastest);

/// The fraction of each layer's experts that its quota holds: what an accuracy model takes.
std::vector<double> inMemoryOf(const moert::CacheShape &shape,
                               const moert::CacheAllotment &allotment);

/// The quotas with which the accuracy model expects the least loss, found by the genetic algorithm
/// (GeneticAllotment.h); the allotment itself if it has no record for each layer.
moert::CacheAllotment allotByAccuracy(const AccuracyModel &model, const moert::CacheShape &shape,
                                      const moert::CacheAllotment &allotment);

/// Experts of each layer, the most important on the calibration text first: uses times norm.
/// Without a trace by their norms.
std::vector<std::vector<uint32_t>> expertsByImportance(const PlanProblem &problem);

/// For settings with the rules and the allotment of preset swapmoe or pruning: the quotas of
/// swapmoe, what is in memory at the start, what is pinned, and the exchanges, with their reasons.
std::vector<moert::PlanReason> chooseVirtualExperts(Preset preset, const PlanProblem &problem,
                                                    PlanSettings &settings);

} // namespace moec
