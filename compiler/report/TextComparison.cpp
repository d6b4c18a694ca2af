#include "compiler/report/TextComparison.h"

#include "compiler/report/ReportFacts.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

namespace {

constexpr uint64_t kMostParts = 8;

/// Parts of so many tokens that take no more time to replay than a run.
uint64_t partsInTime(uint64_t tokens, const PlanTrace &trace) {
  uint64_t demands = 0;
  for (const TracedLayer &layer : trace.layers)
    demands += tokens * layer.topK;
  return kMostReplayedDemands / std::max<uint64_t>(1, demands);
}

/// Tokens of the calibration trace that are replayed like a run.
struct Part {
  uint64_t begin = 0, prompt = 0, decoded = 0;
};

/// Evenly spread over the text that no plan was decided on. Texts shorter than the run give one
/// part with fewer decoded tokens, and after that with a shorter prompt.
std::vector<Part> partsLike(uint64_t prompt, uint64_t decoded, const PlanTrace &trace) {
  const uint64_t tokens = trace.tokens();
  decoded = std::min(decoded, std::max(tokens / 2, tokens - std::min(tokens, prompt)));
  prompt = std::min(prompt, tokens - decoded);
  const uint64_t length = prompt + decoded;
  const uint64_t first = std::min(trace.decidingTokens(), tokens - length);
  const uint64_t count = std::clamp<uint64_t>(
      std::min((tokens - first) / length, partsInTime(length, trace)), 1, kMostParts);
  const uint64_t room = tokens - first - length;
  std::vector<Part> parts;
  for (uint64_t i = 0; i < count; ++i)
    parts.push_back({first + (count > 1 ? room * i / (count - 1) : 0), prompt, decoded});
  return parts;
}

/// Predictions of a part of the tokens.
std::vector<LayerPredictions> predictionsOf(std::span<const LayerPredictions> whole, Part part) {
  std::vector<LayerPredictions> cut;
  for (const LayerPredictions &layer : whole) {
    LayerPredictions &each = cut.emplace_back();
    each.predictor = layer.predictor;
    each.layer = layer.layer;
    each.ahead = layer.ahead;
    each.perToken = layer.perToken;
    const auto candidates =
        std::span(layer.candidates)
            .subspan(part.begin * layer.perToken, (part.prompt + part.decoded) * layer.perToken);
    each.candidates.assign(candidates.begin(), candidates.end());
  }
  return cut;
}

Result<Simulated> simulatePart(const RunSimulation &simulation, Part part) {
  const PlanTrace &trace = *simulation.inputs().trace;
  std::vector<LayerRoutes> routes;
  for (const TracedLayer &layer : trace.layers)
    routes.push_back(
        {layer.experts, layer.topK,
         std::span(layer.chosen)
             .subspan(part.begin * layer.topK, (part.prompt + part.decoded) * layer.topK)});
  RunFacts facts = simulation.run().facts;
  facts.promptTokens = part.prompt;
  const std::vector<TraceStep> steps = stepsOfRun(facts, part.prompt + part.decoded);
  MOERT_ASSIGN_OR_RETURN(const RoutingTrace routing, makeTrace(routes, steps));
  const std::vector<LayerPredictions> predictions =
      predictionsOf(simulation.calibrationProblem().predictions, part);
  PlanProblem problem = simulation.problem();
  problem.trace = &routing;
  problem.predictions = predictions;
  MOERT_ASSIGN_OR_RETURN(
      const TimedResult result,
      replayInTime(problem, predictedOnly(simulation.settingsFor(simulation.poolPages()), problem),
                   {.fromStep = steps.size() - part.decoded}));
  return meansOf(result);
}

} // namespace

Result<std::optional<TextComparison>> compareTexts(const RunSimulation &simulation) {
  if (!simulation.hasCalibration())
    return std::optional<TextComparison>();
  const size_t prompt = simulation.firstDecodeStep();
  const RoutingTrace &routes = simulation.routes();
  const uint64_t decoded = routes.passes.size() / routes.layerExperts.size() - prompt;
  const std::vector<Part> parts =
      partsLike(simulation.run().facts.promptTokens, decoded, *simulation.inputs().trace);
  TextComparison compared;
  compared.parts = static_cast<uint32_t>(parts.size());
  compared.tokens = parts.front().decoded;
  MOERT_ASSIGN_OR_RETURN(const TimedResult run,
                         replayInTime(simulation.problem(),
                                      simulation.settingsFor(simulation.poolPages()),
                                      {.steps = prompt + compared.tokens, .fromStep = prompt}));
  compared.run = meansOf(run);
  compared.leastHitRate = 1;
  MOERT_ASSIGN_OR_RETURN(
      const std::vector<Simulated> simulated,
      replayEach(parts.size(), [&](size_t i) { return simulatePart(simulation, parts[i]); }));
  for (const Simulated &each : simulated) {
    const double count = static_cast<double>(parts.size());
    compared.calibration.tokenNs += each.tokenNs / count;
    compared.calibration.waitNs += each.waitNs / count;
    compared.calibration.computeNs += each.computeNs / count;
    compared.calibration.bytesRead += each.bytesRead / count;
    compared.calibration.hitRate += each.hitRate / count;
    compared.calibration.readyRate += each.readyRate / count;
    compared.leastHitRate = std::min(compared.leastHitRate, each.hitRate);
  }
  return std::optional(compared);
}

std::string differenceText(const TextComparison &text) {
  const double lostNs = text.run.tokenNs - text.calibration.tokenNs;
  if (shownText(text.run.tokenNs, Unit::kNs) == shownText(text.calibration.tokenNs, Unit::kNs))
    return "other experts, but the same time";
  const std::string difference = shownText(std::abs(lostNs), Unit::kNs);
  return strCat("the difference ", lostNs > 0 ? "costs " : "saves ", difference, " per token");
}

} // namespace moec
