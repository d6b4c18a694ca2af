// A program for tests/e2e/test_report_size.py: an artifact of many layers and experts, without
// weights, and the profile of a run of it, both with numbers that a formula makes.
//
//   synthetic_run LAYERS EXPERTS TOKENS ARTIFACT RUN
//
// The artifact is the tiny one (tests/unit/format/TinyArtifact.h) with more layers. Its records are
// a hole in the file, so that nothing can execute it; moec report reads everything else.
#include "compiler/profile/TraceSection.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"
#include "runtime/format/WeightsChecksum.h"
#include "runtime/format/Writer.h"
#include "runtime/policy/CacheAllotment.h"
#include "runtime/serving/RunProfile.h"
#include "tests/unit/format/TinyArtifact.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace moert;
using namespace moec;

namespace {

constexpr uint32_t kTopK = 8, kCandidates = 8, kPrompt = 64;
constexpr uint32_t kWindowTokens = 128, kWindows = 6;

/// Experts of a token in a layer, best first: most of them popular ones, which follow the text.
std::vector<uint16_t> chosen(uint32_t token, uint32_t layer, uint32_t experts) {
  std::vector<uint16_t> all;
  uint64_t state = uint64_t(token / 4) * 2654435761u + layer * 40503u + 7;
  while (all.size() < kTopK) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double uniform = double(state >> 40) / double(1 << 24);
    const auto expert = static_cast<uint16_t>(uniform * uniform * uniform * experts);
    if (std::ranges::find(all, expert) == all.end())
      all.push_back(expert);
  }
  return all;
}

//===-- The artifact --------------------------------------------------------------------------===//

/// The tiny program has two layers; the first one, which predicts the second, is repeated.
Program repeated(const Program &tiny, uint32_t layers, uint32_t experts) {
  const auto isStore = [](const Instruction &each) {
    return std::holds_alternative<StoreKvInstruction>(each);
  };
  const std::vector<Instruction> &all = tiny.instructions;
  const auto first = std::ranges::find_if(all, isStore);
  const auto second = std::find_if(first + 1, all.end(), isStore);
  const std::span layerOf(all.begin() + 1, all.begin() + 1 + (second - first));
  Program program = tiny;
  program.instructions = {all.front()};
  program.layers = {kNone};
  for (uint32_t layer = 0; layer < layers; ++layer)
    for (Instruction each : layerOf) {
      if (auto *store = std::get_if<StoreKvInstruction>(&each))
        store->slot = layer;
      if (auto *attend = std::get_if<AttendInstruction>(&each))
        attend->slot = layer;
      if (auto *route = std::get_if<RouteInstruction>(&each)) {
        route->moeLayer = layer;
        route->beginsReads = layer + 1 == layers;
      }
      if (auto *run = std::get_if<ExpertsInstruction>(&each))
        run->moeLayer = layer;
      if (auto *predict = std::get_if<PredictInstruction>(&each)) {
        if (layer + 1 == layers)
          continue;
        predict->moeLayer = layer + 1;
      }
      program.instructions.push_back(each);
      program.layers.push_back(static_cast<int32_t>(layer));
    }
  program.instructions.insert(program.instructions.end(), all.end() - 2, all.end());
  program.layers.insert(program.layers.end(), 2, kNone);
  program.arenaBytesPerToken = 0;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    Buffer &buffer = program.buffers[i];
    if (i == TinyBuffers::kScores)
      buffer.width = experts;
    if (i == TinyBuffers::kExperts || i == TinyBuffers::kWeights)
      buffer.width = kTopK;
    if (i == TinyBuffers::kRanks)
      buffer.width *= kTopK / 2;
    buffer.offset = program.arenaBytesPerToken;
    buffer.bytesPerToken = bufferBytesPerRow(buffer.kind, buffer.width, buffer.group);
    program.arenaBytesPerToken += buffer.bytesPerToken;
  }
  return program;
}

void check(const Status &status) {
  if (status.isOk())
    return;
  std::fprintf(stderr, "synthetic_run: %s\n", status.message().c_str());
  std::exit(1);
}

template <typename Value> Value checked(Result<Value> result) {
  check(result.status());
  return std::move(result).value();
}

/// Quotas and a pool for a quarter of the experts, which prefetches every layer but the first.
Plan quarterPlan(const Artifact &artifact) {
  Plan plan;
  plan.name = "25%";
  plan.preset = "auto";
  plan.prefillChunk = 16;
  plan.contextTokens = 4096;
  plan.rules.eviction = EvictionPolicy::kReuseDistance;
  for (const MoeLayer &layer : artifact.moeLayers) {
    const CacheShape::Layer shape =
        cacheLayerOf(recordBytesOf(layer), artifact.pageBytes, layer.topK);
    plan.quotaPages.push_back(static_cast<uint32_t>(shape.allPages / 4));
    plan.stagingPages = static_cast<uint32_t>(shape.recordPages * kTopK);
  }
  plan.prefetches.assign(artifact.moeLayers.size(),
                         {Predictor::kGate, 1, kCandidates, 2, kFixedPointOne / 16});
  plan.prefetches.front() = {};
  return plan;
}

Artifact makeArtifact(uint32_t layers, uint32_t experts, uint64_t traceBytes) {
  Artifact artifact = tinyArtifact();
  artifact.model.layers = layers;
  artifact.model.maxPositions = 8192;
  MoeLayer layer = artifact.moeLayers[0];
  layer.topK = kTopK;
  layer.experts.resize(experts, layer.experts[0]);
  artifact.moeLayers.assign(layers, layer);
  for (uint32_t i = 0; i < layers; ++i)
    artifact.moeLayers[i].layer = i;
  artifact.kvSlots.resize(layers, artifact.kvSlots[0]);
  artifact.residents[TinyWeights::kRouter].shape.rows = experts;
  for (Program &program : artifact.programs)
    program = repeated(program, layers, experts);
  artifact.plans.clear();
  check(layOutArtifact(artifact, {kTinyTokenizerBytes, 0, traceBytes}));
  artifact.plans = {quarterPlan(artifact)};
  return artifact;
}

PlanTrace makeTrace(uint32_t layers, uint32_t experts) {
  PlanTrace trace{kWindowTokens, kWindows, std::vector<TracedLayer>(layers)};
  for (uint32_t l = 0; l < layers; ++l) {
    TracedLayer &layer = trace.layers[l];
    layer.experts = experts;
    layer.topK = kTopK;
    for (uint32_t token = 0; token < trace.tokens(); ++token)
      std::ranges::copy(chosen(token + 5000, l, experts), std::back_inserter(layer.chosen));
    layer.ahead.resize(std::min(3u, layers - 1 - l));
    for (size_t d = 0; d < layer.ahead.size(); ++d) {
      TracedPredictions &made = layer.ahead[d];
      made.perToken = kCandidates;
      for (uint32_t token = 0; token < trace.tokens(); ++token)
        std::ranges::copy(chosen(token + 5000 + token % 3, l + uint32_t(d) + 1, experts),
                          std::back_inserter(made.experts));
      made.probabilities.assign(made.experts.size(), 100);
    }
  }
  return trace;
}

void writeArtifact(Artifact &artifact, std::span<const std::byte> trace, const char *path) {
  OutputFile file = checked(OutputFile::create(path));
  const auto section = [&](uint64_t offset, std::span<const std::byte> bytes) {
    check(file.writeAt(offset, bytes));
    return checksum64(bytes);
  };
  const std::vector<std::byte> zeros(std::max(artifact.residentBytes, kTinyTokenizerBytes));
  constexpr uint64_t kResidentsAt = 4096; // After the first page.
  artifact.residentChecksum = section(kResidentsAt, std::span(zeros).first(artifact.residentBytes));
  artifact.tokenizerChecksum =
      section(artifact.tokenizerOffset, std::span(zeros).first(kTinyTokenizerBytes));
  artifact.traceChecksum = section(artifact.traceOffset, trace);
  const SealedArtifact sealed = checked(sealArtifact(artifact));
  check(file.writeAt(sealed.manifestOffset, sealed.manifest));
  check(file.writeAt(0, sealed.prefix));
  check(file.commit());
}

//===-- The run -------------------------------------------------------------------------------===//

RunFacts factsOf(const Artifact &artifact, uint32_t tokens) {
  const Plan &plan = artifact.plans[0];
  RunFacts facts;
  facts.program = "synthetic_run";
  facts.artifact = "synthetic.moe";
  facts.weightsChecksum = weightsChecksum(artifact);
  facts.plan = plan.name;
  facts.preset = plan.preset;
  facts.end = "length";
  facts.threads = facts.cores = 2;
  facts.prefillChunkTokens = plan.prefillChunk;
  facts.contextTokens = plan.contextTokens;
  facts.promptTokens = kPrompt;
  facts.generatedTokens = tokens + 1;
  facts.poolPages = plan.stagingPages;
  for (uint32_t pages : plan.quotaPages)
    facts.poolPages += pages;
  facts.accountedBytes = (uint64_t(64) << 20) + facts.poolPages * artifact.pageBytes;
  facts.budgetBytes = facts.peakMemoryBytes = facts.accountedBytes;
  facts.availableBytes = 4 * facts.accountedBytes;
  return facts;
}

/// A step that misses half of what it asks for and waits for a third of its time.
void recordStep(RunPhase phase, uint32_t firstToken, uint32_t tokens, uint64_t &begin,
                const Artifact &artifact, RunProfile &profile) {
  std::vector<LayerProfile> layers(artifact.moeLayers.size() + 1);
  RunStep step{phase, firstToken, tokens, begin};
  for (size_t l = 0; l + 1 < layers.size(); ++l) {
    LayerProfile &layer = layers[l];
    layer.computeNs = 200'000 + (firstToken * 7919 + l * 104729) % 20'000;
    layer.waitNs = 100'000 + (firstToken * 31 + l * 17) % 9'000;
    layer.hits = layer.misses = kTopK / 2;
    layer.bytesRead = layer.misses * artifact.moeLayers[l].experts[0].bytes;
    layer.ready = layer.hits;
    layer.stalled = 1;
    step.partNs[size_t(StepPart::kExperts)] += layer.computeNs;
    step.wallNs += layer.computeNs + layer.waitNs;
  }
  step.residentBytes = uint64_t(100) << 20;
  step.reads = {4, step.wallNs / 2, step.wallNs};
  begin += step.wallNs;
  profile.record(step, layers);
}

void writeRun(const Artifact &artifact, uint32_t tokens, const char *path) {
  const auto layers = static_cast<uint32_t>(artifact.moeLayers.size());
  RunProfile profile(kPrompt / 16 + tokens, layers);
  RouteRecord routes(artifact, kPrompt + tokens);
  uint64_t begin = 0;
  for (uint32_t token = 0; token < kPrompt; token += 16)
    recordStep(RunPhase::kPrefill, token, 16, begin, artifact, profile);
  for (uint32_t token = kPrompt; token < kPrompt + tokens; ++token)
    recordStep(RunPhase::kDecode, token, 1, begin, artifact, profile);
  for (uint32_t l = 0; l < layers; ++l) {
    const auto experts = static_cast<uint32_t>(artifact.moeLayers[l].experts.size());
    for (uint32_t token = 0; token < kPrompt + tokens; ++token) {
      const std::vector<uint16_t> all = chosen(token, l, experts);
      routes.addChosen(l, token, std::vector<int32_t>(all.begin(), all.end()));
      std::vector<PrefetchCandidate> candidates;
      for (uint16_t expert : chosen(token + token % 3, l, experts))
        candidates.push_back({expert, kFixedPointOne / 3});
      if (l > 0)
        routes.addCandidates(l, 1, token, candidates);
    }
  }
  OutputFile file = checked(OutputFile::create(path));
  check(profile.write(file, factsOf(artifact, tokens), routes));
  check(file.commit());
}

} // namespace

int main(int count, char **words) {
  if (count != 6) {
    std::fprintf(stderr, "usage: synthetic_run LAYERS EXPERTS TOKENS ARTIFACT RUN\n");
    return 2;
  }
  const auto number = [&](int i) { return static_cast<uint32_t>(std::atoi(words[i])); };
  const std::vector<std::byte> trace = encodeTrace(makeTrace(number(1), number(2)));
  Artifact artifact = makeArtifact(number(1), number(2), trace.size());
  writeArtifact(artifact, trace, words[4]);
  writeRun(artifact, number(3), words[5]);
}
