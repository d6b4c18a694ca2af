#include "compiler/plan/MarginalTimes.h"

#include "compiler/plan/TimedReplay.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

// Large enough that a record or two more make a difference, small enough to go by a straight line.
static constexpr double kRateStep = 1.1;
static constexpr uint64_t kPoolParts = 8; // The pool is made so much of itself larger and smaller.

namespace {

/// The replays of one call. Borrows the problem and the rule.
class Marginals {
public:
  Marginals(const PlanProblem &planned, const PlanRule &by) : problem(planned), rule(by) {}

  Result<MarginalTimes> take();

private:
  Status countUses(const PlanSettings &settings);
  Status weighReading(const PlanSettings &settings);
  Status weighComputing(const PlanSettings &settings);
  Status weighPages();
  /// The difference to the unchanged time, over what was added or taken away.
  static double fractionOf(double differenceNs, double ofNs) {
    return ofNs > 0 ? std::max(0.0, differenceNs / ofNs) : 0;
  }

  const PlanProblem &problem;
  const PlanRule &rule;
  double tokenNs = 0;
  MarginalTimes times;
};

} // namespace

// Prefetches never change what is kept, so that they can be left out here.
Status Marginals::countUses(const PlanSettings &settings) {
  MOERT_ASSIGN_OR_RETURN(CacheReplay replay, CacheReplay::create(replayCacheOf(problem, settings)));
  const RoutingTrace &trace = *problem.trace;
  for (uint32_t experts : trace.layerExperts)
    times.experts.emplace_back(experts);
  double tokens = 0, missing = 0, waitingPasses = 0;
  for (const RoutingPass &pass : trace.passes) {
    if (pass.beginsPrompt)
      replay.beginPrompt();
    const PassDemand demand = trace.demandOf(pass);
    if (pass.tokens == 1) {
      const CacheDirectory &state = replay.state();
      std::vector<ExpertUse> &uses = times.experts[pass.layer];
      for (uint32_t expert = 0; expert < uses.size(); ++expert)
        uses[expert].held += state.at(state.idOf(pass.layer, expert)).isHeld();
      double misses = 0;
      for (uint32_t expert : demand.wanted) {
        const bool isHeld = state.at(state.idOf(pass.layer, expert)).isHeld();
        uses[expert].wanted += 1;
        uses[expert].reads += !isHeld;
        misses += !isHeld;
      }
      missing += misses;
      waitingPasses += misses > 0;
      tokens += pass.layer == 0;
    }
    replay.runPass(pass.layer, demand);
  }
  if (tokens == 0)
    return invalidInput("the trace has no decoded tokens");
  for (std::vector<ExpertUse> &layer : times.experts)
    for (ExpertUse &use : layer)
      use = {use.wanted / tokens, use.reads / tokens, use.held / tokens};
  times.readsUnderWay = std::clamp(missing / std::max(1.0, waitingPasses), 1.0, double(kMostReads));
  return {};
}

Status Marginals::weighReading(const PlanSettings &settings) {
  ReadTable faster = *problem.reads;
  for (Quantity &rate : faster.bytesPerSecond)
    rate.value *= kRateStep;
  PlanProblem other = problem;
  other.reads = &faster;
  MOERT_ASSIGN_OR_RETURN(TimedResult result, replayInTime(other, settings));
  double reading = 0;
  for (size_t l = 0; l < times.experts.size(); ++l)
    for (size_t e = 0; e < times.experts[l].size(); ++e)
      reading += times.experts[l][e].reads * readingNs(problem, times, problem.recordBytes[l][e]);
  times.readingFraction = fractionOf(tokenNs - result.meanNs(), reading * (1 - 1 / kRateStep));
  return {};
}

Status Marginals::weighComputing(const PlanSettings &settings) {
  StepCosts slower = *problem.costs;
  double computing = 0;
  for (size_t l = 0; l < slower.layers.size(); ++l) {
    for (const ExpertUse &use : times.experts[l])
      computing += use.wanted * slower.layers[l].expert.firstNs;
    slower.layers[l].expert.firstNs *= kRateStep;
    slower.layers[l].expert.furtherNs *= kRateStep;
  }
  PlanProblem other = problem;
  other.costs = &slower;
  MOERT_ASSIGN_OR_RETURN(TimedResult result, replayInTime(other, settings));
  times.computingFraction = fractionOf(result.meanNs() - tokenNs, computing * (kRateStep - 1));
  return {};
}

// To both sides, where the smaller pool still holds the plan.
Status Marginals::weighPages() {
  const uint64_t step = std::max<uint64_t>(1, problem.poolPages / kPoolParts);
  PlanProblem larger = problem, smaller = problem;
  larger.poolPages += step;
  smaller.poolPages -= std::min(step, smaller.poolPages);
  MOERT_ASSIGN_OR_RETURN(TimedResult more, replayInTime(larger, settingsBy(rule, larger)));
  double longest = tokenNs;
  uint64_t pages = step;
  if (check(smaller).isOk()) {
    auto less = replayInTime(smaller, settingsBy(rule, smaller));
    if (less.isOk()) {
      longest = less->meanNs();
      pages += step;
    }
  }
  times.pageNs = fractionOf(longest - more.meanNs(), static_cast<double>(pages));
  return {};
}

Result<MarginalTimes> Marginals::take() {
  const PlanSettings settings = settingsBy(rule, problem);
  MOERT_ASSIGN_OR_RETURN(TimedResult result, replayInTime(problem, settings));
  tokenNs = result.meanNs();
  MOERT_RETURN_IF_ERROR(countUses(settings));
  MOERT_RETURN_IF_ERROR(weighReading(settings));
  MOERT_RETURN_IF_ERROR(weighComputing(settings));
  MOERT_RETURN_IF_ERROR(weighPages());
  return std::move(times);
}

Result<MarginalTimes> marginalTimes(const PlanProblem &problem, const PlanRule &rule) {
  MOERT_RETURN_IF_ERROR(check(problem));
  return Marginals(problem, rule).take();
}

double readingNs(const PlanProblem &problem, const MarginalTimes &times, uint64_t recordBytes) {
  return readNs(*problem.reads, recordBytes, times.readsUnderWay).value / times.readsUnderWay;
}

} // namespace moec
