// How exactly the replay of a trace foretells what plans with miss rules count.
//
//     miss_replay_bench ARTIFACT TEXT TOKENS
//
// For each plan with a miss rule the first TOKENS tokens of a text are decoded one by one, with
// reads that are complete at once, and replayed twice: with the scores that the routers gave in
// that run, where every layer pass has to count the same, and with those of a run that waits, as
// calibration records them. Prints an object per plan: counts of the run and of both replays, and
// how many of the layer passes counted the same. Exit status 1 if the first replay differs.
#include "compiler/emit/ArtifactFacts.h"
#include "compiler/plan/MakePlans.h"
#include "compiler/plan/TimedReplay.h"
#include "runtime/base/InputText.h"
#include "runtime/engine/Engine.h"
#include "runtime/engine/Footprint.h"
#include "tests/unit/engine/SynchronousQueue.h"
#include "tests/unit/plan/RecordScores.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace moec;
using namespace moert;

namespace {

struct Counts {
  uint64_t hits = 0, misses = 0, bytesRead = 0;
  MissCounts changes;

  Counts &operator+=(const Counts &other) {
    hits += other.hits;
    misses += other.misses;
    bytesRead += other.bytesRead;
    changes += other.changes;
    return *this;
  }
  /// Bytes of prefetches may count with one layer pass or with the next one.
  bool isSame(const Counts &other) const {
    return hits == other.hits && misses == other.misses && changes == other.changes;
  }
};

/// What a decoded text gave.
struct Recording : StepObserver {
  std::vector<LayerScores> scores;
  std::vector<std::vector<std::vector<PrefetchCandidate>>> predicted; // [MoE layer][token]
  std::vector<Counts> passes;                                         // [token][MoE layer]

  Status onLogits(Session &, uint32_t, std::span<const float>) override { return {}; }
  void onMissRule(uint32_t moeLayer, uint32_t, const MissInputs &inputs) override {
    recordScores(inputs, scores[moeLayer]);
  }
  void onPredict(uint32_t moeLayer, uint32_t, uint32_t,
                 std::span<const PrefetchCandidate> named) override {
    predicted[moeLayer].emplace_back(named.begin(), named.end());
  }
};

} // namespace

static Result<Recording> decode(const std::string &path, const Plan &plan,
                                std::span<const int32_t> tokens) {
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, Model::openWith(path, {plan}));
  EngineOptions options;
  options.contextTokens = static_cast<uint32_t>(tokens.size());
  options.readQueue = test::makeSynchronousQueue;
  options.plan = 0;
  MOERT_ASSIGN_OR_RETURN(const MemoryAccount account, accountMemory(*model, options));
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                         Engine::load(*model, options, account));
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, engine->createSession());
  const std::vector<MoeLayer> &layers = model->artifact().moeLayers;
  Recording recording;
  recording.scores.resize(layers.size());
  recording.predicted.resize(layers.size());
  for (const int32_t &token : tokens) {
    const SessionTokens one = {session.get(), {&token, 1}, LogitsWanted::kNowhere};
    MOERT_RETURN_IF_ERROR(engine->step({&one, 1}, recording));
    for (const MoeLayer &layer : layers) {
      const LayerProfile &counted = engine->lastStep()[layer.layer];
      recording.passes.push_back({counted.hits,
                                  counted.misses,
                                  counted.bytesRead,
                                  {counted.lowered, counted.skipped, counted.substituted}});
    }
  }
  return recording;
}

static Result<std::vector<Counts>> replay(const ModelFacts &facts, const Plan &plan,
                                          const Recording &recording, size_t tokens) {
  std::vector<LayerRoutes> routes;
  std::vector<LayerPredictions> predictions;
  for (size_t l = 0; l < facts.recordBytes.size(); ++l) {
    routes.push_back({static_cast<uint32_t>(facts.recordBytes[l].size()), facts.topK[l],
                      recording.scores[l].chosen});
    if (recording.predicted[l].empty())
      continue;
    const PrefetchRule &rule = plan.prefetches[l];
    LayerPredictions &made = predictions.emplace_back();
    made = {rule.predictor, static_cast<uint32_t>(l), rule.ahead, rule.candidates, {}};
    for (std::vector<PrefetchCandidate> named : recording.predicted[l]) {
      named.resize(rule.candidates, named.back());
      made.candidates.insert(made.candidates.end(), named.begin(), named.end());
    }
  }
  std::vector<TraceStep> steps(tokens);
  steps.front().beginsPrompt = true;
  MOERT_ASSIGN_OR_RETURN(const RoutingTrace trace, makeTrace(routes, steps));
  const PlanSettings settings = settingsOf(plan);
  const ReadTable reads{{4096}, {1}, {{1e9, Origin::kMeasured}}};
  StepCosts costs;
  costs.layers.resize(routes.size());
  const PlanProblem problem = {.trace = &trace,
                               .predictions = predictions,
                               .recordBytes = facts.recordBytes,
                               .sliceEnds = facts.sliceEnds,
                               .lowCopySlices = facts.lowCopySlices,
                               .scores = recording.scores,
                               .topK = facts.topK,
                               .pageBytes = facts.footprint.pageBytes,
                               .poolPages = settings.allotment.totalPages(),
                               .reads = &reads,
                               .costs = &costs};
  MOERT_RETURN_IF_ERROR(check(problem));
  MOERT_ASSIGN_OR_RETURN(const TimedResult result,
                         replayInTime(problem, settings, {.keepsPasses = true}));
  std::vector<Counts> passes;
  for (const TimedPass &pass : result.passes)
    passes.push_back({pass.counts.cache.hits, pass.counts.cache.misses, pass.counts.cache.bytesRead,
                      pass.counts.misses});
  return passes;
}

static void print(const char *name, const std::vector<Counts> &passes,
                  const std::vector<Counts> &measured) {
  Counts sum;
  size_t same = 0;
  for (size_t i = 0; i < passes.size(); ++i) {
    sum += passes[i];
    same += passes[i].isSame(measured[i]);
  }
  std::printf(
      ", \"%s\": {\"hits\": %llu, \"misses\": %llu, \"bytes_read\": %llu, \"lowered\": %llu, "
      "\"skipped\": %llu, \"substituted\": %llu, \"same_passes\": %zu}",
      name, static_cast<unsigned long long>(sum.hits), static_cast<unsigned long long>(sum.misses),
      static_cast<unsigned long long>(sum.bytesRead),
      static_cast<unsigned long long>(sum.changes.lowered),
      static_cast<unsigned long long>(sum.changes.skipped),
      static_cast<unsigned long long>(sum.changes.substituted), same);
}

/// Whether the replay of the run's own scores counts the same.
static Result<bool> compare(const std::string &path, const ModelFacts &facts, const Plan &plan,
                            std::span<const int32_t> tokens) {
  // Nothing is unimportant, so that nothing changes; but the scores are reported.
  Plan waiting = plan;
  waiting.miss = {.action = MissAction::kSubstitute, .waitUpTo = kFixedPointOne};
  waiting.rules.baseSlices = waiting.miss.baseSlices();
  MOERT_ASSIGN_OR_RETURN(const Recording own, decode(path, plan, tokens));
  MOERT_ASSIGN_OR_RETURN(const Recording exact, decode(path, waiting, tokens));
  MOERT_ASSIGN_OR_RETURN(const std::vector<Counts> ofOwn, replay(facts, plan, own, tokens.size()));
  MOERT_ASSIGN_OR_RETURN(const std::vector<Counts> ofExact,
                         replay(facts, plan, exact, tokens.size()));
  size_t same = 0;
  for (size_t i = 0; i < ofOwn.size(); ++i)
    same += ofOwn[i].isSame(own.passes[i]);
  std::printf("{\"plan\": \"%s\", \"miss\": \"%s\", \"passes\": %zu", plan.name.c_str(),
              missRuleText(plan.miss).c_str(), own.passes.size());
  print("run", own.passes, own.passes);
  print("own_scores", ofOwn, own.passes);
  print("scores_of_waiting", ofExact, own.passes);
  std::printf("}\n");
  return same == own.passes.size();
}

static Result<bool> run(const std::string &path, const std::string &textPath, size_t count) {
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, Model::open(path));
  if (!model->tokenizer())
    return invalidInput(path, " has no tokenizer");
  MOERT_ASSIGN_OR_RETURN(const std::string text, readInput(textPath));
  MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, model->tokenizer()->encode(text, true));
  if (tokens.size() < count || count == 0)
    return invalidInput(textPath, " has ", tokens.size(), " tokens, expected ", count,
                        ", which is not 0");
  tokens.resize(count);
  const ModelFacts facts = factsOf(model->artifact(), footprintOf(*model));
  bool isSame = true;
  for (const Plan &plan : model->artifact().plans) {
    if (!plan.miss.changesDecoding())
      continue;
    MOERT_ASSIGN_OR_RETURN(const bool isSameHere, compare(path, facts, plan, tokens));
    isSame = isSame && isSameHere;
  }
  return isSame;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: miss_replay_bench ARTIFACT TEXT TOKENS\n");
    return 2;
  }
  const Result<bool> isSame = run(argv[1], argv[2], std::strtoul(argv[3], nullptr, 10));
  if (!isSame.isOk()) {
    std::fprintf(stderr, "miss_replay_bench: %s\n", isSame.status().message().c_str());
    return 2;
  }
  return *isSame ? 0 : 1;
}
