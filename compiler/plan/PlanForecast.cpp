#include "compiler/plan/PlanForecast.h"

#include "compiler/plan/BeladyBound.h"

#include <algorithm>

using namespace moert;

namespace moec {

static double ratio(double part, double whole) {
  return whole == 0 ? 0 : part / whole;
}

double computeNsPerToken(const PlanProblem &problem) {
  double ns = 0, tokens = 0;
  for (const RoutingPlay &play : problem.trace->plays) {
    if (play.tokens != 1)
      continue;
    const StepCosts::Layer &costs = problem.costs->layers[play.layer];
    ns += costs.before.of(1) + costs.beside.of(1) +
          static_cast<double>(play.end - play.begin) * costs.expert.of(1);
    if (play.layer == 0) {
      ns += problem.costs->after.of(1);
      tokens += 1;
    }
  }
  return ratio(ns, tokens);
}

/// Of the size of record that the device reads fastest, into the memory that it reads fastest into.
static double bestBytesPerNs(const PlanProblem &problem) {
  double best = 0, share = 1;
  for (const ReusedMemory &reused : problem.reads->reused)
    share = std::max(share, reused.share.value);
  for (const std::vector<uint64_t> &layer : problem.recordBytes)
    for (uint64_t bytes : {*std::min_element(layer.begin(), layer.end()),
                           *std::max_element(layer.begin(), layer.end())})
      for (uint32_t depth : problem.reads->depths)
        best = std::max(best, depth * static_cast<double>(bytes) /
                                  readNs(*problem.reads, bytes, depth).value);
  return share * best;
}

PlanForecast forecastOf(const PlanProblem &problem, const PlanSettings &settings,
                        const TimedResult &result) {
  const TimedCounts &decode = result.decode;
  const double tokens = static_cast<double>(result.tokenNs.size());
  const double wanted = static_cast<double>(decode.cache.hits + decode.cache.misses);
  PlanForecast forecast;
  forecast.tokens = result.tokenNs.size();
  forecast.tokenNs = result.meanNs();
  forecast.medianNs = result.quantileNs(0.5);
  forecast.slowNs = result.quantileNs(0.95);
  forecast.hitRate = ratio(static_cast<double>(decode.cache.hits), wanted);
  forecast.presentRate = ratio(static_cast<double>(decode.present), wanted);
  forecast.bytesPerToken = ratio(static_cast<double>(decode.cache.bytesRead), tokens);
  const double adopted = static_cast<double>(decode.cache.adopted);
  forecast.guessRecall = ratio(adopted, static_cast<double>(decode.cache.misses));
  forecast.guessPrecision = ratio(adopted, static_cast<double>(decode.cache.guessesRead));
  const BeladyBound bound =
      beladyBound(*problem.trace, problem.recordBytes, problem.pageBytes, problem.poolPages,
                  settings.start.empty() ? BoundStart::kEmpty : BoundStart::kBest);
  forecast.leastBytesPerToken = ratio(static_cast<double>(bound.decodeBytesRead), tokens);
  forecast.boundNs = std::max(computeNsPerToken(problem),
                              ratio(forecast.leastBytesPerToken, bestBytesPerNs(problem)));
  forecast.origin = problem.costs->origin;
  for (const Quantity &rate : problem.reads->bytesPerSecond)
    forecast.origin = worseOf(forecast.origin, rate.origin);
  for (const ReusedMemory &reused : problem.reads->reused)
    forecast.origin = worseOf(forecast.origin, reused.share.origin);
  return forecast;
}

} // namespace moec
