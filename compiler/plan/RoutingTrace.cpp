#include "compiler/plan/RoutingTrace.h"

#include <algorithm>

using namespace moert;

namespace moec {

PassDemand RoutingTrace::demandOf(const RoutingPass &pass) const {
  size_t count = pass.end - pass.begin;
  return {std::span(wanted).subspan(pass.begin, count), std::span(uses).subspan(pass.begin, count),
          pass.tokens};
}

std::vector<TraceStep> stepsOfWindows(uint32_t windows, uint32_t windowTokens,
                                      uint32_t promptTokens, uint32_t chunkTokens) {
  std::vector<TraceStep> steps;
  for (uint32_t window = 0; window < windows; ++window)
    for (uint32_t done = 0; done < windowTokens; done += steps.back().tokens) {
      uint32_t prompt = promptTokens - std::min(promptTokens, done);
      uint32_t tokens = std::min({chunkTokens, prompt, windowTokens - done});
      steps.push_back({std::max(1u, tokens), done == 0, prompt > 0});
    }
  return steps;
}

RoutingTrace partOf(const RoutingTrace &trace, size_t beginStep, size_t endStep) {
  const size_t layers = trace.layerExperts.size();
  RoutingTrace part;
  part.layerExperts = trace.layerExperts;
  for (size_t p = beginStep * layers; p < endStep * layers; ++p) {
    RoutingPass pass = trace.passes[p];
    const auto begin = static_cast<ptrdiff_t>(pass.begin), end = static_cast<ptrdiff_t>(pass.end);
    pass.begin = part.wanted.size();
    part.wanted.insert(part.wanted.end(), trace.wanted.begin() + begin, trace.wanted.begin() + end);
    part.uses.insert(part.uses.end(), trace.uses.begin() + begin, trace.uses.begin() + end);
    pass.end = part.wanted.size();
    part.passes.push_back(pass);
  }
  return part;
}

static Status check(std::span<const LayerRoutes> layers, uint64_t tokens) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerRoutes &layer = layers[i];
    if (layer.topK == 0 || layer.topK > layer.experts || layer.chosen.size() % layer.topK != 0 ||
        layer.chosen.size() / layer.topK != tokens)
      return invalidInput("MoE layer ", i, " of the trace has ", layer.chosen.size(), " choices, ",
                          layer.topK, " a token of ", layer.experts, " experts, expected those of ",
                          tokens, " tokens");
    uint32_t largest =
        tokens == 0 ? 0 : *std::max_element(layer.chosen.begin(), layer.chosen.end());
    if (largest >= layer.experts)
      return invalidInput("MoE layer ", i, " of the trace chose expert ", largest, ", it has ",
                          layer.experts);
  }
  return {};
}

Result<RoutingTrace> makeTrace(std::span<const LayerRoutes> layers,
                               std::span<const TraceStep> steps) {
  uint64_t tokens = 0;
  for (const TraceStep &step : steps) {
    if (step.tokens == 0)
      return invalidInput("a step of the trace has no tokens");
    tokens += step.tokens;
  }
  MOERT_RETURN_IF_ERROR(check(layers, tokens));
  RoutingTrace trace;
  for (const LayerRoutes &layer : layers)
    trace.layerExperts.push_back(layer.experts);
  std::vector<uint32_t> counts, distinct;
  uint64_t first = 0;
  for (const TraceStep &step : steps) {
    for (uint32_t l = 0; l < layers.size(); ++l) {
      counts.assign(layers[l].experts, 0);
      distinct.clear();
      for (uint16_t expert :
           layers[l].chosen.subspan(first * layers[l].topK, uint64_t(step.tokens) * layers[l].topK))
        if (counts[expert]++ == 0)
          distinct.push_back(expert);
      std::sort(distinct.begin(), distinct.end(), [&](uint32_t a, uint32_t b) {
        return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
      });
      uint64_t begin = trace.wanted.size();
      for (uint32_t expert : distinct) {
        trace.wanted.push_back(expert);
        trace.uses.push_back(counts[expert]);
      }
      trace.passes.push_back(
          {l, step.tokens, begin, trace.wanted.size(), step.beginsPrompt && l == 0, step.isPrompt});
    }
    first += step.tokens;
  }
  return trace;
}

} // namespace moec
