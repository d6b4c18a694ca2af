#include "runtime/generation/Generation.h"

#include <algorithm>

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

const char *nameOf(GenerationEnd end) {
  switch (end) {
  case GenerationEnd::kLength:
    return "length";
  case GenerationEnd::kContext:
    return "context";
  case GenerationEnd::kEndToken:
    return "eos";
  case GenerationEnd::kStop:
    return "stop";
  case GenerationEnd::kRepetition:
    return "repetition";
  case GenerationEnd::kInterrupted:
    return "interrupted";
  }
  return "";
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

/// Returns when the step began.
Result<uint64_t> Generation::beginStep() {
  const uint64_t begin = now();
  if (measured.promptTokens == 0)
    firstBeginNs = begin;
  if (prepareStep)
    MOERT_RETURN_IF_ERROR(prepareStep());
  return begin;
}

Status Generation::step(RunPhase phase, uint64_t begin, std::span<const int32_t> tokens,
                        LogitsWanted wanted, Choice &choice) {
  const uint32_t position = session.length();
  const bool isPrefill = phase == RunPhase::kPrefill;
  SessionTokens batch = {&session, tokens, wanted, isPrefill};
  MOERT_RETURN_IF_ERROR(engine.step({&batch, 1}, choice));
  const uint64_t wallNs = now() - begin;

  (isPrefill ? measured.promptNs : measured.decodeNs) += wallNs;
  (isPrefill ? measured.promptTokens : measured.decodeSteps) += tokens.size();
  for (const LayerProfile &layer : engine.lastStep())
    (isPrefill ? measured.prefill : measured.decode).add(layer);
  if (takeStep)
    takeStep({.phase = phase,
              .firstToken = position,
              .tokens = static_cast<uint32_t>(tokens.size()),
              .beginNs = begin - firstBeginNs,
              .wallNs = wallNs,
              .partNs = engine.lastStepParts(),
              .reads = engine.lastStepReads()},
             engine.lastStep());
  return {};
}

/// Returns false once *stop is set.
Result<bool> Generation::prefill(const GenerationRequest &request, Choice &choice) {
  std::span<const int32_t> rest = request.prompt;
  while (!rest.empty()) {
    if (isStopped())
      return false;
    MOERT_ASSIGN_OR_RETURN(const uint64_t begin, beginStep());
    auto chunk = rest.first(std::min<size_t>(rest.size(), engine.prefillChunk()));
    rest = rest.subspan(chunk.size());
    bool isWanted = rest.empty() && request.maxTokens > 0;
    MOERT_RETURN_IF_ERROR(step(RunPhase::kPrefill, begin, chunk,
                               isWanted ? LogitsWanted::kLast : LogitsWanted::kNowhere, choice));
  }
  return true;
}

Result<GenerationEnd> Generation::run(const GenerationRequest &request, const TakeToken &take) {
  Choice choice(sampler, engine.model(), routes);
  NgramStop repetition(request.ngramStop, request.maxTokens);
  sampler.beginSequence();
  sampler.addPrompt(request.before);
  sampler.addPrompt(request.prompt);
  MOERT_ASSIGN_OR_RETURN(bool isComplete, prefill(request, choice));
  if (!isComplete)
    return GenerationEnd::kInterrupted;
  const GenerationEnd fullEnd =
      request.fillsContext ? GenerationEnd::kContext : GenerationEnd::kLength;
  if (request.maxTokens == 0)
    return fullEnd;
  while (true) {
    const int32_t token =
        request.given.empty() ? choice.token : request.given[measured.generatedTokens];
    if (std::find(request.endTokens.begin(), request.endTokens.end(), token) !=
        request.endTokens.end())
      return GenerationEnd::kEndToken;
    ++measured.generatedTokens;
    sampler.addGenerated(token);
    MOERT_ASSIGN_OR_RETURN(bool goesOn, take(token));
    if (!goesOn)
      return GenerationEnd::kStop;
    if (repetition.take(token))
      return GenerationEnd::kRepetition;
    if (measured.generatedTokens == request.maxTokens)
      return fullEnd;
    if (isStopped())
      return GenerationEnd::kInterrupted;
    MOERT_ASSIGN_OR_RETURN(const uint64_t begin, beginStep());
    MOERT_RETURN_IF_ERROR(
        step(RunPhase::kDecode, begin, std::span(&token, 1), LogitsWanted::kLast, choice));
  }
}

Result<GenerationEnd> generate(Generation &generation, const GenerationRequest &request,
                               TextStream &text) {
  MOERT_ASSIGN_OR_RETURN(GenerationEnd end, generation.run(request, [&text](int32_t token) {
    return text.take(token);
  }));
  MOERT_RETURN_IF_ERROR(text.finish());
  // Text that was held back can complete a stop text.
  return text.isStopped() ? GenerationEnd::kStop : end;
}

} // namespace moert
