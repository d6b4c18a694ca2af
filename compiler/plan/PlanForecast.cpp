#include "compiler/plan/PlanForecast.h"

#include "compiler/plan/BeladyBound.h"
#include "compiler/plan/TimedReplay.h"

#include <algorithm>

using namespace moert;

namespace moec {

static double ratio(double part, double whole) {
  return whole == 0 ? 0 : part / whole;
}

double computeNsPerToken(const PlanProblem &problem, size_t fromStep) {
  double ns = 0, tokens = 0;
  const std::vector<RoutingPass> &passes = problem.trace->passes;
  const size_t first = std::min(passes.size(), fromStep * problem.trace->layerExperts.size());
  for (const RoutingPass &pass : std::span(passes).subspan(first)) {
    if (pass.tokens != 1)
      continue;
    const StepCosts::Layer &costs = problem.costs->layers[pass.layer];
    ns += costs.before.of(1) + costs.beside.of(1) +
          static_cast<double>(pass.end - pass.begin) * costs.expert.of(1);
    if (pass.layer == 0) {
      ns += problem.costs->after.of(1);
      tokens += 1;
    }
  }
  return ratio(ns, tokens);
}

/// The best rate over all sizes of records, depths and memory.
static double bestBytesPerNs(const PlanProblem &problem) {
  double best = 0, factor = 1;
  for (const ReusedMemory &reused : problem.reads->reused)
    factor = std::max(factor, reused.factor.value);
  for (const std::vector<uint64_t> &layer : problem.recordBytes)
    for (uint64_t bytes : {*std::min_element(layer.begin(), layer.end()),
                           *std::max_element(layer.begin(), layer.end())})
      for (uint32_t depth : problem.reads->depths)
        best = std::max(best, depth * static_cast<double>(bytes) /
                                  readNs(*problem.reads, bytes, depth).value);
  return factor * best;
}

static uint64_t decodedTokens(const RoutingTrace &trace) {
  return static_cast<uint64_t>(std::ranges::count_if(
      trace.passes, [](const RoutingPass &pass) { return pass.layer == 0 && pass.tokens == 1; }));
}

Result<Forecast> forecastOf(const PlanProblem &problem, const PlanSettings &settings,
                            size_t fromStep) {
  const RoutingTrace &trace = *problem.trace;
  MOERT_ASSIGN_OR_RETURN(const TimedResult result,
                         replayInTime(problem, settings, {.fromStep = fromStep}));
  const TimedCounts &decode = result.decode;
  const double tokens = static_cast<double>(result.tokenNs.size());
  const double wanted = static_cast<double>(decode.cache.hits + decode.cache.misses);
  Forecast forecast;
  forecast.tokens = result.tokenNs.size();
  forecast.traceTokens = decodedTokens(trace);
  forecast.tokenNs = result.meanNs();
  forecast.medianNs = result.quantileNs(0.5);
  forecast.slowNs = result.quantileNs(0.95);
  forecast.hitRate = ratio(static_cast<double>(decode.cache.hits), wanted);
  forecast.readyRate = ratio(static_cast<double>(decode.cache.ready), wanted);
  forecast.bytesPerToken = ratio(static_cast<double>(decode.cache.bytesRead), tokens);
  const double useful = static_cast<double>(decode.cache.useful);
  forecast.prefetchRecall = ratio(useful, static_cast<double>(decode.cache.misses));
  forecast.prefetchPrecision = ratio(
      useful, static_cast<double>(decode.cache.prefetchesRead + decode.cache.prefetchesRetained));
  const RoutingTrace counted =
      partOf(trace, fromStep, trace.passes.size() / trace.layerExperts.size());
  const BeladyBound bound = beladyBound(counted, problem.recordBytes, problem.pageBytes,
                                        problem.poolPages, result.heldBefore);
  forecast.leastBytesPerToken = ratio(static_cast<double>(bound.decodeBytesRead), tokens);
  forecast.boundNs = std::max(computeNsPerToken(problem, fromStep),
                              ratio(forecast.leastBytesPerToken, bestBytesPerNs(problem)));
  forecast.origin = problem.costs->origin;
  for (const Quantity &rate : problem.reads->bytesPerSecond)
    forecast.origin = worseOf(forecast.origin, rate.origin);
  for (const ReusedMemory &reused : problem.reads->reused)
    forecast.origin = worseOf(forecast.origin, reused.factor.origin);
  return forecast;
}

} // namespace moec
