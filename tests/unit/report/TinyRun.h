// A run of the tiny artifact (tests/unit/format/TinyArtifact.h) as its profile would have it, and
// inputs of a report on it.
#pragma once

#include "compiler/plan/MakePlans.h"
#include "compiler/report/ReportInputs.h"
#include "runtime/format/WeightsChecksum.h"
#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/planning/TinyPlanning.h"

#include <algorithm>

namespace moec {

/// Times of a decoded token's layer, in ns. A run that waits takes longer.
struct TinyTimes {
  uint64_t expertNs = 20'000, otherNs = 30'000, waitNs = 100'000;
};

/// Which experts token `token` uses in layer `layer`, of four.
using TinyRoute = std::vector<uint16_t> (*)(uint32_t token, uint32_t layer);

inline std::vector<uint16_t> roundRobin(uint32_t token, uint32_t layer) {
  return {static_cast<uint16_t>((token + layer) % 4),
          static_cast<uint16_t>((token + layer + 1) % 4)};
}

/// Two experts that the whole text uses, in each layer.
inline std::vector<uint16_t> alwaysTheSame(uint32_t, uint32_t) {
  return {0, 1};
}

inline RunRecord tinyRun(const moert::Artifact &artifact, const TinyTimes &times, TinyRoute route,
                         uint32_t prompt = 2, uint32_t decoded = 30) {
  using namespace moert;
  RunRecord run;
  run.path = "run.json";
  run.layers = artifact.model.layers;
  run.facts.artifact = "tiny.moe";
  run.facts.weightsChecksum = weightsChecksum(artifact);
  run.facts.plan = artifact.plans[0].name;
  run.facts.preset = artifact.plans[0].preset;
  run.facts.threads = run.facts.cores = 1;
  run.facts.promptTokens = prompt;
  run.facts.generatedTokens = decoded + 1;
  run.facts.prefillChunkTokens = prompt;
  run.facts.poolPages = 6;
  run.facts.accountedBytes = (1 << 20) + 6 * artifact.pageBytes;
  run.facts.budgetBytes = run.facts.accountedBytes;
  run.facts.availableBytes = run.facts.accountedBytes;
  run.routedTokens = prompt + decoded;
  run.chosen.resize(artifact.moeLayers.size());
  run.candidates.resize(artifact.moeLayers.size());
  for (uint32_t token = 0; token < run.routedTokens; ++token)
    for (uint32_t layer = 0; layer < run.chosen.size(); ++layer)
      for (uint16_t expert : route(token, layer))
        run.chosen[layer].push_back(expert);
  run.prefill.layers.resize(run.layers + 1);
  run.decode.layers.resize(run.layers + 1);
  for (uint32_t token = 0; token < decoded; ++token) {
    RecordedStep &step = run.steps.emplace_back();
    step.layers.resize(run.layers + 1);
    step.step.firstToken = prompt + token;
    step.step.tokens = 1;
    for (uint32_t layer = 0; layer < run.layers; ++layer) {
      LayerProfile &of = step.layers[layer];
      of.computeNs = 2 * times.expertNs + times.otherNs;
      of.waitNs = times.waitNs;
      of.hits = 1;
      of.misses = 1;
      of.bytesRead = times.waitNs > 0 ? artifact.moeLayers[0].experts[0].bytes : 0;
      step.step.partNs[size_t(StepPart::kExperts)] += 2 * times.expertNs;
      step.step.partNs[size_t(StepPart::kAttention)] += times.otherNs;
    }
    step.step.beginNs = run.decode.wallNs;
    step.step.wallNs = step.computeNs() + step.waitNs();
    run.decode.steps += 1;
    run.decode.tokens += 1;
    run.decode.wallNs += step.step.wallNs;
    for (size_t i = 0; i < kStepParts; ++i)
      run.decode.partNs[i] += step.step.partNs[i];
    for (size_t i = 0; i < step.layers.size(); ++i)
      run.decode.layers[i].add(step.layers[i]);
  }
  return run;
}

/// Calibration text of two windows of 16 tokens that are routed like this.
inline PlanTrace tinyTrace(TinyRoute route) {
  PlanTrace trace{16, 2, {{4, 2, {}, {}}, {4, 2, {}, {}}}};
  for (uint32_t token = 0; token < trace.tokens(); ++token)
    for (uint32_t layer = 0; layer < 2; ++layer)
      for (uint16_t expert : route(token, layer))
        trace.layers[layer].chosen.push_back(expert);
  return trace;
}

/// Without a device. The plan keeps one expert per layer, prefetches nothing and pins nothing.
inline ReportInputs tinyInputs(const TinyTimes &times, TinyRoute route) {
  ReportInputs inputs;
  inputs.artifactPath = "tiny.moe";
  inputs.artifact = tinyArtifact();
  moert::Plan &plan = inputs.artifact.plans[0];
  plan.prefetches.clear();
  plan.pinned.clear();
  plan.start.clear();
  plan.forecast.reset();
  inputs.facts = factsOf(inputs.artifact);
  const moert::CacheShape shape = moert::cacheShapeOf(inputs.artifact);
  plan.quotaPages.clear();
  uint64_t most = 0;
  for (const moert::CacheShape::Layer &layer : shape.layers) {
    plan.quotaPages.push_back(static_cast<uint32_t>(layer.recordPages));
    most = std::max(most, layer.recordPages);
  }
  plan.stagingPages = static_cast<uint32_t>(most);
  RunRecord run = tinyRun(inputs.artifact, times, route);
  run.facts.poolPages = poolPagesOf(plan);
  run.facts.accountedBytes = (1 << 20) + run.facts.poolPages * inputs.artifact.pageBytes;
  run.facts.budgetBytes = run.facts.availableBytes = run.facts.accountedBytes;
  inputs.runs.push_back(run);
  return inputs;
}

/// A run whose plan skipped half of the experts of the second rank, and a trace with scores.
inline ReportInputs skippingInputs() {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.artifact.plans[0].miss.action = moert::MissAction::kSkip;
  inputs.trace = tinyTrace(roundRobin);
  for (TracedLayer &layer : inputs.trace->layers) {
    layer.candidates = layer.topK;
    layer.likeliest = layer.chosen;
    for (size_t i = 0; i < layer.chosen.size(); ++i)
      layer.weights.push_back(i % 2 == 0 ? 0.75F : 0.25F);
    layer.likelihoods = layer.weights;
  }
  for (moert::LayerTotals &layer : inputs.runs[0].decode.layers)
    layer.skipped = 15;
  return inputs;
}

} // namespace moec
