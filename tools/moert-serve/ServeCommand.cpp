#include "tools/moert-serve/ServeCommand.h"

#include "runtime/base/InputText.h"
#include "runtime/base/Utf8.h"
#include "runtime/base/WorkerThread.h"
#include "runtime/engine/Footprint.h"
#include "runtime/format/Quality.h"
#include "runtime/text/grammar/GrammarAutomaton.h"
#include "runtime/text/grammar/JsonSchema.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/Interrupt.h"
#include "tools/console/OutputStream.h"
#include "tools/moert-serve/HttpServer.h"
#include "tools/moert/BudgetFollower.h"
#include "tools/moert/EngineFlags.h"
#include "tools/moert/LoadedModel.h"
#include "tools/moert/RunContext.h"
#include "tools/moert/TemplateFlags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <malloc.h>
#include <memory>
#include <span>
#include <sys/random.h>

namespace moert::serve {

namespace {

constexpr uint32_t kMaxContext = 1 << 24;
constexpr uint32_t kDefaultSessions = 8, kMaxSessions = 256, kDefaultWaiting = 64;
constexpr uint32_t kMaxGraceSeconds = 3600;
constexpr uint64_t kMiB = 1 << 20;

struct ServeOptions {
  std::string artifact;
  std::string host = "127.0.0.1";
  uint32_t port = 8080; // 0: one that is free.
  HttpOptions http;
  std::optional<std::string> apiKeyFile, modelName;
  std::optional<uint32_t> contextTokens;
  std::optional<uint64_t> sessionTokens;
  uint32_t sessions = kDefaultSessions;
  uint32_t waiting = kDefaultWaiting;
  std::optional<uint32_t> kept;
  uint32_t graceSeconds = 10;
  cli::TemplateFlags chatTemplate;
  cli::EngineFlags engine;
};

/// "qwen" of "/models/qwen.moe".
std::string nameOf(const std::string &path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".moe"))
    name.resize(name.size() - 4);
  return name;
}

ServingLimits limitsOf(const ServeOptions &options, const Artifact &artifact,
                       uint32_t contextTokens) {
  ServingLimits limits;
  limits.contextTokens = contextTokens;
  limits.running = options.sessions;
  limits.waiting = options.waiting;
  // With recurrent states the copy of a beginning, beside the sequence itself.
  const uint32_t leastKept = artifact.stateSlots.empty() ? 1 : 2;
  limits.kept = options.kept.value_or(std::max(options.sessions, leastKept));
  limits.sessionTokens = Engine::sessionTokensFor(limits.contextTokens);
  limits.sessionTokens =
      options.sessionTokens.value_or(limits.sessionTokens * std::min(2u, options.sessions));
  return limits;
}

/// What requests and answers reserve from: as much as the sequences that run and wait have with
/// short prompts and answers of the whole room without scores.
uint64_t sharedBytes(const ServeOptions &options, const ServingLimits &limits) {
  // The smallest serves the largest body and a grammar at its limit.
  constexpr uint64_t kLeast = 6 * kMiB;
  // A generated token with its text, as a piece and as JSON.
  constexpr uint64_t kPerToken = 2048;
  const uint64_t sequences = uint64_t(limits.running) + limits.waiting;
  const uint64_t bytes =
      limits.sessionTokens * kPerToken +
      sequences * (uint64_t(limits.contextTokens) * 2 * sizeof(int32_t) + 16 * 1024);
  return std::max({bytes, kLeast, 4 * uint64_t(options.http.limits.bodyBytes)});
}

/// The artifact's, or that of --template.
Result<ChatFormat> chatFormatOf(const ServeOptions &options, const Artifact &artifact) {
  std::optional<Chat> chat = artifact.chat;
  Json arguments = Json::object();
  MOERT_RETURN_IF_ERROR(cli::addTemplateArguments(options.chatTemplate, arguments));
  if (!options.chatTemplate.file)
    return ChatFormat(chat, arguments);
  MOERT_ASSIGN_OR_RETURN(NamedTemplate named, cli::readTemplate(options.chatTemplate));
  if (!chat)
    chat.emplace();
  chat->templates = {std::move(named)};
  ChatFormat format(chat, arguments);
  MOERT_RETURN_IF_ERROR(format.status());
  return format;
}

/// The special tokens that calls are written with.
std::vector<int32_t> callTokensOf(const Model &model, const ChatFormat &format) {
  return format.answers().tokens(*model.tokenizer(), &format.calls());
}

/// The tokens' texts, with those of the special tokens.
TokenTexts textsWith(const Tokenizer &tokenizer, const TokenTexts &plain,
                     std::span<const int32_t> special) {
  std::vector<std::string> texts;
  for (size_t token = 0; token < plain.tokens(); ++token)
    texts.emplace_back(plain.textOf(static_cast<int32_t>(token)));
  for (const int32_t token : special)
    texts[static_cast<size_t>(token)] = tokenizer.contentOf(token);
  return TokenTexts(std::move(texts));
}

/// Memory beside the engine's: connections, requests and what their answers hold.
uint64_t servingBytes(const ServeOptions &options, const ServingLimits &limits, const Model &model,
                      const ChatFormat &format) {
  const uint32_t vocabulary = model.artifact().model.vocabularySize;
  // A stack, the kernel's part of a thread and of its socket, and the library's strings.
  constexpr uint64_t kPerConnection =
      WorkerThread::kStackBytes + WorkerThread::kKernelBytes + 128 * 1024 + HttpServer::kOwnBytes;
  // What the kernel has received for a request that waits for its thread.
  constexpr uint64_t kReceived = 64 * 1024;
  // One that waits for a request, without its header; all headers; an answer that becomes JSON.
  constexpr uint64_t kPerIdleConnection = 4096, kHeaders = 2 * kMiB, kRendering = 2 * kMiB;
  // A value of a parsed body, with its name and the lists that hold it.
  constexpr uint64_t kPerValue = 96;
  SamplingOptions cuts;
  cuts.temperature = 1;
  cuts.topK = 1;
  cuts.presencePenalty = 1;
  uint64_t bytes = kPerConnection * (options.http.connections + 1) + ParsingThread::kStackBytes;
  bytes += WorkerThread::kStackBytes + WorkerThread::kKernelBytes; // The reception's.
  bytes += (options.http.connections + uint64_t(HttpServer::kMostOthers)) *
           (options.http.limits.headerBytes + kPerIdleConnection + kReceived);
  bytes += kPerIdleConnection * options.http.idleConnections() + kHeaders + kRendering;
  bytes += options.http.json.values * kPerValue;
  bytes += 4 * options.http.limits.bodyBytes;
  bytes += 2 * kGrammarBuildBytes; // A schema's, and that of the calls that have it.
  bytes += sharedBytes(options, limits);
  // Samplers are those of running sequences: the others have none yet.
  bytes += limits.running * Sampler::memoryBytes(cuts, vocabulary);
  // Texts of the tokens; for each sequence with a format a row of logits, and its constraint; two
  // rows more, of allowed tokens and their logits.
  constexpr uint64_t kTextBytesPerToken = 16;
  const uint64_t tables = callTokensOf(model, format).empty() ? 1 : 2;
  bytes += tables * TokenTexts::memoryBytes(vocabulary, vocabulary * kTextBytesPerToken);
  bytes += limits.running * (TokenConstraint::memoryBytes(vocabulary) + Sequence::kChoosingBytes);
  bytes += GrammarAutomaton::kCompactBytes; // Once: constraints are the serving loop's thread's.
  bytes += (limits.running + 2) * uint64_t(vocabulary) * sizeof(float);
  return bytes;
}

Status readApiKey(ServeOptions &options) {
  if (options.http.apiKey && options.apiKeyFile)
    return invalidInput("--api-key and --api-key-file, expected one of them");
  if (const char *key = std::getenv("MOERT_API_KEY");
      key && *key && !options.http.apiKey && !options.apiKeyFile)
    options.http.apiKey = key;
  if (options.apiKeyFile) {
    MOERT_ASSIGN_OR_RETURN(std::string text, readInput(*options.apiKeyFile));
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    options.http.apiKey = std::move(text);
  }
  if (!options.http.apiKey)
    return {};
  const std::string &key = *options.http.apiKey;
  if (key.empty() || !isPlainText(key) || key.find(' ') != std::string::npos)
    return invalidInput("an API key that is empty or has spaces or control characters, expected "
                        "visible characters");
  return {};
}

uint64_t drawSeed() {
  uint32_t seed = 0;
  // Only fails before the system has any randomness.
  if (::getrandom(&seed, sizeof seed, 0) != sizeof seed)
    return 0;
  return seed;
}

EngineOptions engineOptions(const ServeOptions &options, const Model &model,
                            const ChatFormat &format, uint32_t contextTokens) {
  const ServingLimits limits = limitsOf(options, model.artifact(), contextTokens);
  EngineOptions engine = cli::engineOptionsOf(options.engine);
  // What a miss rule changes depends on what the cache holds, and so on the other sequences.
  engine.isExact = true;
  engine.contextTokens = contextTokens;
  engine.sessions = limits.sessions();
  engine.sessionTokens = limits.sessionTokens;
  engine.logitsRows = std::min(limits.running, kDefaultSessions);
  engine.extraBytes = servingBytes(options, limits, model, format);
  return engine;
}

/// Text of a header.
Status checkOrigin(const std::optional<std::string> &origin) {
  if (origin &&
      (origin->empty() || !isPlainText(*origin) || origin->find(' ') != std::string::npos))
    return invalidInput("--cors-origin is empty or has spaces or control characters, expected an "
                        "origin such as http://localhost:5173, or *");
  return {};
}

Status serveModel(ServeOptions options) {
  MOERT_RETURN_IF_ERROR(readApiKey(options));
  MOERT_RETURN_IF_ERROR(checkOrigin(options.http.corsOrigin));
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::openText(options.artifact));
  MOERT_RETURN_IF_ERROR(cli::checkContinuesTexts(*model, "moert serve"));
  MOERT_RETURN_IF_ERROR(cli::tokenizerOf(*model, "serve").status());
  MOERT_ASSIGN_OR_RETURN(const ChatFormat chatFormat, chatFormatOf(options, model->artifact()));
  const ModelInfo info = model->artifact().model;
  const cli::NoticeFlags &notices = options.engine.notices;
  const uint32_t defaultContext = std::min(cli::kDefaultContext, info.maxPositions);
  const uint32_t contextTokens = options.contextTokens.value_or(
      cli::contextWithinBudget(*model, defaultContext, [&](uint32_t tokens) {
        return engineOptions(options, *model, chatFormat, tokens);
      }));
  const ServingLimits limits = limitsOf(options, model->artifact(), contextTokens);
  const EngineOptions engine = engineOptions(options, *model, chatFormat, contextTokens);
  MOERT_ASSIGN_OR_RETURN(Listener listener, Listener::bind(options.host, options.port));
  MOERT_ASSIGN_OR_RETURN(
      cli::LoadedModel loaded,
      cli::loadModel(std::move(model), engine, notices,
                     {.levers = "a smaller --context, --kv-tokens or --sessions",
                      .furtherLevers = "; fewer --connections (0.5 MiB each) lower what requests "
                                       "take"}));

  const TokenTexts tokenTexts(*loaded.model->tokenizer());
  std::optional<TokenTexts> callTexts;
  if (const std::vector<int32_t> special = callTokensOf(*loaded.model, chatFormat);
      !special.empty())
    callTexts = textsWith(*loaded.model->tokenizer(), tokenTexts, special);
  ServingLoop loop(*loaded.engine, limits);
  ServedModelInfo served = {loaded.model.get(),
                            options.modelName.value_or(nameOf(options.artifact)),
                            limits.contextTokens,
                            limits.running + limits.waiting,
                            &tokenTexts,
                            callTexts ? &*callTexts : &tokenTexts,
                            &chatFormat,
                            defaultSampling(loaded.model->artifact().sampling),
                            drawSeed,
                            loaded.engine->hasStates()};
  Ledger requests(sharedBytes(options, limits));
  HttpServer server(options.http, loop, requests, served);
  const std::atomic<bool> &stop = cli::catchInterrupts();
  const uint32_t port = listener.port();
  MOERT_RETURN_IF_ERROR(server.start(std::move(listener)));
  if (chatFormat.isAssumed() && !notices.isQuiet)
    cli::writeError("messages   written as ChatML, as the model has no chat template: answers may "
                    "be poor unless it was trained with it\n");
  if (!notices.isQuiet)
    cli::writeError(strCat("quality    ", qualityText(loaded.model->artifact()), "\n"));
  cli::writeError(strCat("serving    ", served.name, " at http://", options.host, ":", port,
                         "/v1; ", limits.running, " sequences at a time, context ",
                         limits.contextTokens, " tokens",
                         !options.contextTokens && contextTokens < defaultContext
                             ? ", for which the budget has memory, "
                             : ", ",
                         limits.sessionTokens, " tokens together\n"));
  MOERT_ASSIGN_OR_RETURN(const uint64_t smallest, smallestBudget(*loaded.model, engine));
  cli::BudgetFollower follower(*loaded.engine, smallest);
  bool follows = options.engine.followsMemory;
  auto follow = [&] {
    if (!follows)
      return;
    if (const Status followed = follower.follow(); !followed.isOk()) {
      follows = false; // The engine still works.
      cli::writeError(strCat("budget     it is no longer followed: ", followed.message(), "\n"));
    }
  };
  auto onStop = [&] {
    if (!notices.isQuiet)
      cli::writeError("stopping   finishing the answers under way\n");
    server.stopAccepting();
  };
  loop.run(stop, std::chrono::seconds(options.graceSeconds), {follow, onStop});
  server.join();
  return {};
}

void addHttpOptions(CLI::App &command, ServeOptions &options) {
  const std::string group = "Address";
  command
      .add_option("--host", options.host,
                  "Address to listen at; 0.0.0.0 lets other machines in (default: 127.0.0.1)")
      ->type_name("HOST")
      ->group(group);
  cli::addCount(
      command, "--port", 0, 65535, [&options](uint32_t n) { options.port = n; },
      "Port to listen at; 0 takes a free one and prints it (default: 8080)")
      ->group(group);
  command
      .add_option("--api-key", options.http.apiKey,
                  "Answer only requests with this key; other users of this machine can see it in "
                  "the list of processes, unlike --api-key-file and MOERT_API_KEY")
      ->type_name("KEY")
      ->group(group);
  cli::addTemplateFlags(command, options.chatTemplate, "Conversations");
  command.add_option("--api-key-file", options.apiKeyFile, "Read the key from a file")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option(
          "--cors-origin", options.http.corsOrigin,
          "Let web pages of this origin use the server, such as http://localhost:5173; '*': "
          "of any (default: none)")
      ->type_name("ORIGIN")
      ->group(group);
  command
      .add_option("--model-name", options.modelName,
                  "The model's name in requests (default: the artifact's file name without .moe)")
      ->type_name("NAME")
      ->group(group);
}

void addLimitOptions(CLI::App &command, ServeOptions &options) {
  const std::string group = "Limits";
  cli::addCount(
      command, "--context", 1, kMaxContext, [&options](uint32_t n) { options.contextTokens = n; },
      strCat("Most tokens of a prompt and its answer (default: ", cli::kDefaultContext,
             ", or the model's positions if they are fewer; less if the budget is small)"))
      ->group(group);
  cli::addCount(
      command, "--sessions", 1, kMaxSessions, [&options](uint32_t n) { options.sessions = n; },
      strCat("Most sequences that are computed at a time (default: ", kDefaultSessions, ")"))
      ->group(group);
  cli::addCount(
      command, "--kv-tokens", 1, UINT32_MAX, [&options](uint32_t n) { options.sessionTokens = n; },
      "Tokens that the KV caches of all running sequences have room for together; a sequence waits "
      "until there is room for its prompt and 256 tokens, or fewer if it asks for fewer (default: "
      "two contexts)")
      ->group(group);
  cli::addCount(
      command, "--queue", 0, 65536, [&options](uint32_t n) { options.waiting = n; },
      strCat("Most sequences that wait; further ones are refused with 429 (default: ",
             kDefaultWaiting, ")"))
      ->group(group);
  cli::addCount(
      command, "--keep", 0, kMaxSessions, [&options](uint32_t n) { options.kept = n; },
      "Most sequences that are kept after their end, while there is room: a prompt that begins as "
      "one of them does is computed from there on (default: as many as --sessions, 2 at least for "
      "a model with recurrent states)")
      ->group(group);
  cli::addCount(
      command, "--connections", 1, 1024, [&options](uint32_t n) { options.http.connections = n; },
      "Most requests that are served at a time; as many wait, and as many connections again may be "
      "idle (default: 64)")
      ->group(group);
  cli::addCount(
      command, "--max-body", 1, 1024,
      [&options](uint32_t n) { options.http.limits.bodyBytes = n * kMiB; },
      "Most MiB of a request's body (default: 1)")
      ->group(group);
  cli::addCount(
      command, "--header-seconds", 1, 3600,
      [&options](uint32_t n) { options.http.limits.header = std::chrono::seconds(n); },
      "Seconds in which a request's header has to arrive (default: 10)")
      ->group(group);
  cli::addCount(
      command, "--grace", 0, kMaxGraceSeconds, [&options](uint32_t n) { options.graceSeconds = n; },
      "Seconds that answers under way have after Ctrl-C (default: 10)")
      ->group(group);
}

} // namespace

void addServeCommand(CLI::App &app, cli::Action &chosen) {
  // Allocator arenas for each thread would make memory grow with the number of connections.
  ::mallopt(M_ARENA_MAX, 2);
  auto options = std::make_shared<ServeOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command = app.add_subcommand("serve", "Answer requests of OpenAI's HTTP API");
  command->add_option("artifact", options->artifact, "The compiled model")
      ->type_name("OUT.moe")
      ->required();
  addHttpOptions(*command, *options);
  addLimitOptions(*command, *options);
  cli::addEngineFlags(*command, options->engine, cli::FollowMemory::kOffered);
  command->footer("The first Ctrl-C finishes the answers under way, the second ends at once.\n" +
                  cli::exampleFooter("moert serve qwen.moe --memory 6GiB --port 8080"));
  command->callback([options, &chosen] { chosen = [options] { return serveModel(*options); }; });
}

} // namespace moert::serve
