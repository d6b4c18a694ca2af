// The C interface (moert.h) over the C++ classes.
#include "moert/moert.h"

#include "runtime/base/SystemLimits.h"
#include "runtime/library/Boundary.h"
#include "runtime/serving/Generation.h"
#include "runtime/text/answer/GeneratedText.h"

#include <algorithm>
#include <memory>
#include <vector>

using namespace moert;
using namespace moert::library;

struct moert_model {
  std::unique_ptr<Model> model;
};

/// Keeps the rows of logits that the caller may read until its next call, one for each session.
struct moert_engine final : StepObserver {
  std::unique_ptr<Engine> engine;
  std::atomic<bool> stop = false;
  uint64_t vocabulary = 0;
  std::vector<float> logits;
  std::vector<SessionTokens> batch;

  /// A row per session of the batch; without a batch the first one.
  Status onLogits(Session &session, uint32_t, std::span<const float> row) override {
    size_t place = 0;
    while (place < batch.size() && batch[place].session != &session)
      ++place;
    place = batch.empty() ? 0 : place;
    std::copy(row.begin(), row.end(), logits.begin() + static_cast<ptrdiff_t>(place * vocabulary));
    return {};
  }
};

struct moert_session {
  std::unique_ptr<Session> session;
  moert_engine *engine = nullptr;
};

namespace {

Status fromBudget(const moert_budget &given, std::optional<BudgetSize> &budget) {
  if (!(given.expert_fraction >= 0 && given.expert_fraction <= 1))
    return invalidInput("expert_fraction is ", given.expert_fraction, ", expected 0 to 1");
  if (given.expert_fraction > 0)
    budget = BudgetSize{0, given.expert_fraction};
  else if (given.bytes > 0)
    budget = BudgetSize{given.bytes, {}};
  return {};
}

Status fromNames(const moert_engine_options &given, EngineOptions &options) {
  if (given.io) {
    const std::optional<IoBackend> io = parseIoBackend(given.io);
    if (!io)
      return invalidInput("io is '", given.io, "', expected auto, uring, threads or buffered");
    options.io = *io;
  }
  if (given.isa && std::string_view(given.isa) != "auto") {
    options.isa = parseIsa(given.isa);
    std::string names;
    for (Isa isa : builtIsas())
      names += strCat(", ", nameOf(isa));
    if (!options.isa)
      return invalidInput("isa is '", given.isa, "', expected one of auto", names);
  }
  if (given.preset)
    options.preset = given.preset;
  return {};
}

Result<EngineOptions> fromOptions(const Model &model, const moert_engine_options *wished) {
  MOERT_ASSIGN_OR_RETURN(
      const moert_engine_options given,
      optionsFrom<moert_engine_options>(wished, MOERT_ENGINE_OPTIONS_INIT, "engine options"));
  EngineOptions options;
  MOERT_RETURN_IF_ERROR(fromBudget(given.memory, options.memory));
  MOERT_RETURN_IF_ERROR(fromNames(given, options));
  options.contextTokens = given.context_tokens > 0
                              ? given.context_tokens
                              : std::min(512u, model.artifact().model.maxPositions);
  options.sessions = given.sessions;
  options.threads = given.threads > 0 ? given.threads : availableCores();
  if (given.prefill_chunk > 0)
    options.prefillChunk = given.prefill_chunk;
  const uint64_t row = uint64_t(model.artifact().model.vocabularySize) * sizeof(float);
  options.extraBytes = given.program_bytes + row * (uint64_t(given.sessions) + 1);
  return options;
}

Result<const Tokenizer *> tokenizerOf(const Model &model) {
  if (!model.tokenizer())
    return invalidInput(model.path(), " has no tokenizer, expected token ids");
  return model.tokenizer();
}

/// A wish to stop ends one call; it ends the next one if none was under way.
Status unlessStopped(moert_engine &engine, Status done) {
  if (done.code() == StatusCode::kInterrupted)
    engine.stop = false;
  return done;
}

Result<SamplingOptions> samplingFrom(const moert_sampling &given) {
  SamplingOptions options;
  options.temperature = given.temperature;
  options.topK = given.top_k;
  options.topP = given.top_p;
  options.seed = given.seed;
  return options;
}

moert_end endOf(GenerationEnd end) {
  switch (end) {
  case GenerationEnd::kEndToken:
    return MOERT_END_TOKEN;
  case GenerationEnd::kStop:
    return MOERT_END_CALLER;
  case GenerationEnd::kContext:
    return MOERT_END_CONTEXT;
  default:
    return MOERT_END_LENGTH;
  }
}

/// Passes tokens with their text to the caller.
class Taker {
public:
  Taker(const Tokenizer *tokenizer, moert_take callback, void *callerData)
      : take(callback), user(callerData) {
    if (tokenizer)
      text.emplace(*tokenizer, StopText::create({}).value());
  }

  /// False if the caller wants no more.
  bool pass(int32_t token) {
    shown.clear();
    if (text)
      text->take(token, shown);
    return take(user, token, shown.c_str(), shown.size()) == 0;
  }
  void finish() {
    shown.clear();
    if (text)
      text->finish(shown);
    if (!shown.empty())
      take(user, -1, shown.c_str(), shown.size());
  }

private:
  moert_take take;
  void *user;
  std::optional<GeneratedText> text;
  std::string shown;
};

Status generateInto(moert_session &session, std::span<const int32_t> prompt,
                    const moert_sampling &given, Taker &taker, moert_end *out) {
  moert_engine &engine = *session.engine;
  const ModelInfo &info = engine.engine->model().artifact().model;
  MOERT_ASSIGN_OR_RETURN(const SamplingOptions options, samplingFrom(given));
  MOERT_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(options, info.vocabularySize));
  if (prompt.empty())
    return invalidInput("0 tokens to begin with, expected at least 1");
  const uint32_t room = session.session->capacity() - session.session->length();
  if (prompt.size() > room)
    return invalidInput("the sequence would have ", session.session->length() + prompt.size(),
                        " tokens, expected at most the context of ", session.session->capacity());
  // The last token that is passed on is not computed.
  const uint64_t most = room - prompt.size() + 1;
  Generation generation(*engine.engine, *session.session, sampler, {}, engine.stop);
  GenerationRequest request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.firstPosition = session.session->length();
  request.maxTokens = static_cast<uint32_t>(std::min<uint64_t>(given.max_tokens, most));
  request.fillsContext = given.max_tokens > most;
  if (!given.ignore_end_tokens)
    request.endTokens = info.eosTokens;
  MOERT_ASSIGN_OR_RETURN(const GenerationEnd end,
                         generation.run(std::move(request), [&](int32_t token) -> Result<bool> {
                           return taker.pass(token);
                         }));
  taker.finish();
  if (end == GenerationEnd::kInterrupted)
    return Status(StatusCode::kInterrupted, "interrupted");
  if (out)
    *out = endOf(end);
  return {};
}

} // namespace

const char *moert_version(void) {
  return MOERT_VERSION;
}

void moert_free(void *memory) {
  std::free(memory);
}

//===-- Models --------------------------------------------------------------------------------===//

moert_status moert_model_open(const char *path, moert_model **out, char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(path, "path"));
    MOERT_RETURN_IF_ERROR(needs(out, "out"));
    MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::openText(path));
    *out = new moert_model{std::move(model)};
    return {};
  });
}

void moert_model_close(moert_model *model) {
  delete model;
}

moert_status moert_model_describe(const moert_model *model, moert_model_facts *facts,
                                  char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(model, "model"));
    const Artifact &artifact = model->model->artifact();
    const ModelInfo &info = artifact.model;
    moert_model_facts known = MOERT_MODEL_FACTS_INIT;
    known.vocabulary_tokens = info.vocabularySize;
    known.layers = info.layers;
    known.max_context_tokens = info.maxPositions;
    known.end_token_count = static_cast<uint32_t>(info.eosTokens.size());
    known.end_tokens = info.eosTokens.data();
    known.begin_token = info.bosToken.value_or(-1);
    known.has_tokenizer = model->model->tokenizer() != nullptr;
    known.expert_bytes = expertPayloadBytes(artifact);
    return giveFacts(known, facts, "model facts");
  });
}

moert_status moert_encode(const moert_model *model, const char *text, size_t text_bytes,
                          int add_special, int32_t **out_tokens, size_t *out_count, char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(model, "model"));
    MOERT_RETURN_IF_ERROR(needs(text, "text"));
    MOERT_RETURN_IF_ERROR(needs(out_tokens, "out_tokens"));
    MOERT_RETURN_IF_ERROR(needs(out_count, "out_count"));
    MOERT_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, tokenizerOf(*model->model));
    MOERT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                           tokenizer->encode({text, text_bytes}, add_special != 0));
    auto *copy = static_cast<int32_t *>(std::malloc(std::max<size_t>(1, ids.size()) * 4));
    if (!copy)
      throw std::bad_alloc();
    std::copy(ids.begin(), ids.end(), copy);
    *out_tokens = copy;
    *out_count = ids.size();
    return {};
  });
}

moert_status moert_decode(const moert_model *model, const int32_t *tokens, size_t count,
                          int skip_special, char **out_text, char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(model, "model"));
    MOERT_RETURN_IF_ERROR(count == 0 ? Status() : needs(tokens, "tokens"));
    MOERT_RETURN_IF_ERROR(needs(out_text, "out_text"));
    MOERT_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, tokenizerOf(*model->model));
    char *copy = copyOf(tokenizer->decode({tokens, count}, skip_special != 0));
    if (!copy)
      throw std::bad_alloc();
    *out_text = copy;
    return {};
  });
}

//===-- Engines -------------------------------------------------------------------------------===//

moert_status moert_smallest_budget(const moert_model *model, const moert_engine_options *options,
                                   uint64_t *out_bytes, char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(model, "model"));
    MOERT_RETURN_IF_ERROR(needs(out_bytes, "out_bytes"));
    MOERT_ASSIGN_OR_RETURN(const EngineOptions wished, fromOptions(*model->model, options));
    MOERT_ASSIGN_OR_RETURN(*out_bytes, smallestBudget(*model->model, wished));
    return {};
  });
}

moert_status moert_engine_load(const moert_model *model, const moert_engine_options *options,
                               moert_engine **out, char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(model, "model"));
    MOERT_RETURN_IF_ERROR(needs(out, "out"));
    MOERT_ASSIGN_OR_RETURN(const EngineOptions wished, fromOptions(*model->model, options));
    MOERT_ASSIGN_OR_RETURN(const MemoryAccount account, accountMemory(*model->model, wished));
    auto loaded = std::make_unique<moert_engine>();
    MOERT_ASSIGN_OR_RETURN(loaded->engine, Engine::load(*model->model, wished, account));
    loaded->vocabulary = model->model->artifact().model.vocabularySize;
    loaded->logits.resize(loaded->vocabulary * wished.sessions);
    loaded->batch.reserve(wished.sessions);
    *out = loaded.release();
    return {};
  });
}

void moert_engine_close(moert_engine *engine) {
  delete engine;
}

moert_status moert_engine_describe(const moert_engine *engine, moert_engine_facts *facts,
                                   char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(engine, "engine"));
    const MemoryAccount &account = engine->engine->account();
    moert_engine_facts known = MOERT_ENGINE_FACTS_INIT;
    known.budget_bytes = account.budgetBytes;
    known.accounted_bytes = account.totalBytes();
    known.plan = engine->engine->model().artifact().plans[account.plan].name.c_str();
    known.prefill_chunk = engine->engine->prefillChunk();
    known.vocabulary_tokens = static_cast<uint32_t>(engine->vocabulary);
    return giveFacts(known, facts, "engine facts");
  });
}

moert_status moert_engine_set_budget(moert_engine *engine, const moert_budget *budget,
                                     char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(engine, "engine"));
    MOERT_RETURN_IF_ERROR(needs(budget, "budget"));
    std::optional<BudgetSize> wished;
    MOERT_RETURN_IF_ERROR(fromBudget(*budget, wished));
    return engine->engine->setBudget(wished.value_or(BudgetSize{memorySignals().bound.bytes, {}}));
  });
}

void moert_stop(moert_engine *engine) {
  if (engine)
    engine->stop.store(true, std::memory_order_relaxed);
}

//===-- Sessions ------------------------------------------------------------------------------===//

moert_status moert_session_create(moert_engine *engine, moert_session **out, char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(engine, "engine"));
    MOERT_RETURN_IF_ERROR(needs(out, "out"));
    MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, engine->engine->createSession());
    *out = new moert_session{std::move(session), engine};
    return {};
  });
}

void moert_session_close(moert_session *session) {
  delete session;
}

uint32_t moert_session_length(const moert_session *session) {
  return session ? session->session->length() : 0;
}

void moert_session_reset(moert_session *session) {
  if (session)
    session->session->reset();
}

moert_status moert_compute(moert_session *session, const int32_t *tokens, size_t count,
                           const float **out_logits, char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(session, "session"));
    MOERT_RETURN_IF_ERROR(count == 0 ? Status() : needs(tokens, "tokens"));
    moert_engine &engine = *session->engine;
    engine.batch.clear();
    const LogitsWanted wanted = out_logits ? LogitsWanted::kLast : LogitsWanted::kNowhere;
    MOERT_RETURN_IF_ERROR(unlessStopped(
        engine, engine.engine->prefill({session->session.get(), {tokens, count}, wanted}, engine,
                                       &engine.stop)));
    if (out_logits)
      *out_logits = engine.logits.data();
    return {};
  });
}

moert_status moert_compute_batch(moert_step *steps, size_t count, char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(steps, "steps"));
    if (count == 0)
      return invalidInput("0 steps, expected at least 1");
    for (size_t i = 0; i < count; ++i) {
      MOERT_RETURN_IF_ERROR(needs(steps[i].session, "a step's session"));
      if (steps[i].session->engine != steps[0].session->engine)
        return invalidInput("steps of sessions of different engines, expected one engine's");
    }
    moert_engine &engine = *steps[0].session->engine;
    if (engine.stop.exchange(false))
      return Status(StatusCode::kInterrupted, "interrupted");
    engine.batch.clear();
    for (moert_step &step : std::span(steps, count))
      engine.batch.push_back({step.session->session.get(), {&step.token, 1}, LogitsWanted::kLast});
    MOERT_RETURN_IF_ERROR(engine.engine->step(engine.batch, engine));
    for (size_t i = 0; i < count; ++i)
      steps[i].logits = engine.logits.data() + i * engine.vocabulary;
    return {};
  });
}

moert_status moert_generate(moert_session *session, const int32_t *tokens, size_t count,
                            const moert_sampling *sampling, moert_take take, void *user,
                            moert_end *out_end, char **error) {
  return guarded(error, [&]() -> Status {
    MOERT_RETURN_IF_ERROR(needs(session, "session"));
    MOERT_RETURN_IF_ERROR(count == 0 ? Status() : needs(tokens, "tokens"));
    MOERT_RETURN_IF_ERROR(needs(reinterpret_cast<const void *>(take), "take"));
    MOERT_ASSIGN_OR_RETURN(const moert_sampling given,
                           optionsFrom<moert_sampling>(sampling, MOERT_SAMPLING_INIT, "sampling"));
    Taker taker(session->engine->engine->model().tokenizer(), take, user);
    return unlessStopped(*session->engine,
                         generateInto(*session, {tokens, count}, given, taker, out_end));
  });
}
