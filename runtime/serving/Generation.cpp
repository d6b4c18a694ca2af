#include "runtime/serving/Generation.h"

#include <utility>

namespace moert {

static double perSecond(uint64_t count, uint64_t ns) {
  return ns == 0 ? 0 : static_cast<double>(count) * 1e9 / static_cast<double>(ns);
}

double GenerationNumbers::promptTokensPerSecond() const {
  return perSecond(promptTokens, promptNs);
}

double GenerationNumbers::decodeTokensPerSecond() const {
  return perSecond(decodeSteps, decodeNs);
}

/// Samples from the one row of logits that was requested of a step, and records routes.
class Generation::Choice : public StepObserver {
public:
  Choice(Sampler &tokenSampler, const Model &sampledModel, RouteRecord *routeRecord)
      : sampler(tokenSampler), model(sampledModel), routes(routeRecord) {}

  Status onLogits(Session &, uint32_t position, std::span<const float> logits) override {
    Result<int32_t> sampled = sampler.sample(logits);
    if (!sampled.isOk())
      return sampled.status().withContext(strCat(model.path(), ": after token ", position));
    token = *sampled;
    return {};
  }

  void onRoute(Session &, uint32_t moeLayer, uint32_t position, std::span<const int32_t> experts,
               std::span<const float>) override {
    if (routes)
      routes->addChosen(moeLayer, position, experts);
  }

  void onPredict(uint32_t moeLayer, uint32_t ahead, uint32_t position,
                 std::span<const PrefetchCandidate> candidates) override {
    if (routes)
      routes->addCandidates(moeLayer, ahead, position, candidates);
  }

  int32_t token = 0;

private:
  Sampler &sampler;
  const Model &model;
  RouteRecord *routes;
};

Generation::Generation(Engine &loadedEngine, Session &emptySession, Sampler &tokenSampler,
                       TakeStep stepTaker, const std::atomic<bool> &stopFlag, Clock clock,
                       PrepareStep preparation)
    : engine(loadedEngine), session(emptySession), sampler(tokenSampler),
      takeStep(std::move(stepTaker)), stop(stopFlag), now(clock),
      prepareStep(std::move(preparation)) {}

Status Generation::step(Choice &choice) {
  const uint64_t begin = now();
  if (measured.promptTokens == 0)
    firstBeginNs = begin;
  if (prepareStep)
    MOERT_RETURN_IF_ERROR(prepareStep());
  const uint32_t position = session.length();
  SessionTokens part = sequence->part(session, engine.prefillChunk());
  MOERT_RETURN_IF_ERROR(engine.step({&part, 1}, choice));
  const uint64_t wallNs = now() - begin;

  (part.isPrompt ? measured.promptNs : measured.decodeNs) += wallNs;
  (part.isPrompt ? measured.promptTokens : measured.decodeSteps) += part.tokens.size();
  for (const LayerProfile &layer : engine.lastStep())
    (part.isPrompt ? measured.prefill : measured.decode).add(layer);
  if (takeStep)
    takeStep({.phase = part.isPrompt ? RunPhase::kPrefill : RunPhase::kDecode,
              .firstToken = position,
              .tokens = static_cast<uint32_t>(part.tokens.size()),
              .beginNs = begin - firstBeginNs,
              .wallNs = wallNs,
              .partNs = engine.lastStepParts(),
              .reads = engine.lastStepReads()},
             engine.lastStep());
  return {};
}

Result<GenerationEnd> Generation::run(GenerationRequest request,
                                      const TokenSequence::TakeToken &take) {
  Choice choice(sampler, engine.model(), routes);
  sampler.beginSequence();
  sampler.addPrompt(request.prompt);
  const std::span<const int32_t> given = request.given;
  sequence.emplace(std::move(request));
  sequence->reserve();
  while (!isStopped()) {
    MOERT_RETURN_IF_ERROR(step(choice));
    if (sequence->rest(session) > 0)
      continue;
    if (sequence->maxTokens() == 0)
      return sequence->fullEnd();
    const int32_t token = given.empty() ? choice.token : given[sequence->generatedTokens()];
    sampler.addGenerated(token);
    const Result<std::optional<GenerationEnd>> ended = sequence->take(token, take);
    measured.generatedTokens = sequence->generatedTokens();
    MOERT_RETURN_IF_ERROR(ended.status());
    if (*ended)
      return **ended;
  }
  return GenerationEnd::kInterrupted;
}

Result<GenerationEnd> generate(Generation &generation, GenerationRequest request,
                               TextStream &text) {
  MOERT_ASSIGN_OR_RETURN(
      GenerationEnd end,
      generation.run(std::move(request), [&text](int32_t token) { return text.take(token); }));
  MOERT_RETURN_IF_ERROR(text.finish());
  // Text that was held back can complete a stop text.
  return text.isStopped() ? GenerationEnd::kStop : end;
}

} // namespace moert
