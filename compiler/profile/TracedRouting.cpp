#include "compiler/profile/TracedRouting.h"

#include "runtime/experts/Candidates.h"
#include "runtime/experts/PathTable.h"

#include <algorithm>

using namespace moert;

namespace moec {

static Result<RoutingTrace> routesOf(const PlanTrace &trace) {
  std::vector<LayerRoutes> routes;
  for (const TracedLayer &layer : trace.layers)
    routes.push_back({layer.experts, layer.topK, layer.chosen});
  const uint32_t prompt = trace.promptTokens();
  return makeTrace(routes,
                   stepsOfWindows(trace.windows, trace.windowTokens, prompt, std::max(1u, prompt)));
}

/// The steps of the first tokens.
static RoutingTrace beginningOf(const RoutingTrace &trace, uint64_t tokens) {
  const size_t layers = trace.layerExperts.size();
  size_t steps = 0;
  for (uint64_t done = 0; done < tokens; ++steps)
    done += trace.passes[steps * layers].tokens;
  return partOf(trace, 0, steps);
}

static uint32_t probabilityOf(uint8_t stored) {
  return static_cast<uint32_t>(uint64_t(stored) * kFixedPointOne / 255);
}

static bool isPredicted(const ModelFacts &facts, uint32_t layer, uint32_t ahead) {
  return layer < facts.isPredicted.size() && facts.isPredicted[layer][ahead - 1];
}

static void addGatePredictions(const ModelFacts &facts, const PlanTrace &trace,
                               std::vector<LayerPredictions> &predictions) {
  for (uint32_t from = 0; from < trace.layers.size(); ++from)
    for (uint32_t d = 0; d < trace.layers[from].ahead.size(); ++d) {
      if (!isPredicted(facts, from + d + 1, d + 1))
        continue;
      const TracedPredictions &traced = trace.layers[from].ahead[d];
      LayerPredictions &gate = predictions.emplace_back();
      gate.predictor = Predictor::kGate;
      gate.ahead = d + 1;
      gate.layer = from + d + 1;
      gate.perToken = traced.perToken;
      for (size_t i = 0; i < traced.experts.size(); ++i)
        gate.candidates.push_back({traced.experts[i], probabilityOf(traced.probabilities[i])});
    }
}

namespace {

/// The predictions of an activation-path table for one layer of the trace.
class PathPredictions {
public:
  PathPredictions(const PathTable &paths, const PlanTrace &traced, uint32_t prefetched)
      : table(paths), trace(traced), layer(prefetched) {}

  LayerPredictions make() const {
    const TracedLayer &target = trace.layers[layer];
    LayerPredictions made;
    made.predictor = Predictor::kPaths;
    made.layer = layer;
    made.perToken = candidatesOf(target.experts, target.topK);
    made.candidates.reserve(trace.tokens() * made.perToken);
    std::vector<uint32_t> probabilities(target.experts);
    std::vector<PrefetchCandidate> likeliest;
    for (uint64_t token = 0; token < trace.tokens(); ++token) {
      table.predict(layer, chosenIn(layer - 1, token),
                    layer > 1 ? chosenIn(layer - 2, token) : std::vector<int32_t>(), probabilities);
      listLikeliest(probabilities, made.perToken, likeliest);
      // Pad a shorter list with its last candidate, which is not read twice.
      likeliest.resize(made.perToken, likeliest.empty() ? PrefetchCandidate() : likeliest.back());
      made.candidates.insert(made.candidates.end(), likeliest.begin(), likeliest.end());
    }
    return made;
  }

private:
  std::vector<int32_t> chosenIn(uint32_t earlier, uint64_t token) const {
    const TracedLayer &from = trace.layers[earlier];
    const auto begin = from.chosen.begin() + static_cast<ptrdiff_t>(token * from.topK);
    return {begin, begin + from.topK};
  }

  const PathTable &table;
  const PlanTrace &trace;
  uint32_t layer;
};

} // namespace

static Status addPathPredictions(const ModelFacts &facts, const PlanTrace &trace,
                                 std::span<const std::byte> paths,
                                 std::vector<LayerPredictions> &predictions) {
  if (paths.empty())
    return {};
  std::vector<uint32_t> experts;
  for (const TracedLayer &layer : trace.layers)
    experts.push_back(layer.experts);
  MOERT_ASSIGN_OR_RETURN(PathTable table, PathTable::create(paths, experts));
  for (uint32_t layer = 1; layer < trace.layers.size(); ++layer)
    if (isPredicted(facts, layer, 1))
      predictions.push_back(PathPredictions(table, trace, layer).make());
  return {};
}

/// What miss rules decide by; empty if the trace has none.
static std::vector<LayerScores> scoresOf(const PlanTrace &trace) {
  std::vector<LayerScores> scores;
  for (const TracedLayer &layer : trace.layers) {
    if (!trace.hasScores())
      break;
    scores.push_back({layer.topK, layer.chosen, layer.weights, layer.candidates, layer.likeliest,
                      layer.likelihoods});
  }
  return scores;
}

Result<KnownRouting> routingOf(const PlanTrace &trace, std::span<const std::byte> paths,
                               const ModelFacts &facts) {
  if (trace.decidingTokens() == trace.tokens())
    return invalidInput("the trace has 1 window of ", trace.windowTokens,
                        trace.windowTokens == 1 ? " token" : " tokens",
                        ", expected more: plans are decided on one part of it and forecast on the "
                        "other; calibrate on more text");
  KnownRouting routing;
  MOERT_ASSIGN_OR_RETURN(routing.whole, routesOf(trace));
  routing.deciding = beginningOf(routing.whole, trace.decidingTokens());
  addGatePredictions(facts, trace, routing.predictions);
  MOERT_RETURN_IF_ERROR(addPathPredictions(facts, trace, paths, routing.predictions));
  routing.scores = scoresOf(trace);
  routing.contextTokens = trace.windowTokens / 2;
  return routing;
}

} // namespace moec
