// moert chat: a conversation with a model, rendered with the chat template of its checkpoint.
#include "runtime/base/InputText.h"
#include "runtime/format/Quality.h"
#include "runtime/serving/ChatTemplates.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/OutputStream.h"
#include "tools/moert/Command.h"
#include "tools/moert/EngineFlags.h"
#include "tools/moert/RunContext.h"
#include "tools/moert/SamplingFlags.h"
#include "tools/moert/TemplateFlags.h"
#include "tools/moert/chat/Chat.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <optional>

namespace moert::cli {

namespace {

/// Memory of libedit and its history, of the locale and of what does not grow with the context.
constexpr uint64_t kFixedBytes = uint64_t(4) << 20;
/// Per token of the context: ids, and the conversation's text in messages, rendered, and in copies.
constexpr uint64_t kTextBytesPerToken = 128;
/// What a template may use: some 2,000 steps for its own logic, and per token of the context its
/// text copied ten times. A step can take 16 bytes.
constexpr uint64_t kTemplateSteps = 50'000, kTemplateStepsPerToken = 32, kBytesPerStep = 16;

struct ChatOptions {
  std::string artifact;
  std::optional<std::string> message; // Answered alone.
  bool keepsNoHistory = false;
  std::string system;
  TemplateFlags chatTemplate;
  std::optional<std::string> templateName;
  std::optional<uint32_t> maxTokens, contextTokens;
  OnFull onFull = OnFull::kShift;
  std::optional<ReasoningView> reasoning;
  SamplingFlags sampling;
  EngineFlags engine;
};

/// What follows from the command line and the artifact, before anything large is loaded.
struct PreparedChat {
  std::unique_ptr<Model> model;
  std::string templateTitle;
  std::optional<Conversation> conversation;
  SamplingOptions sampling;
  bool hasDefaults = false; // The checkpoint states how to sample.
  uint32_t contextTokens = 0;
  bool isContextReduced = false; // Below the default, by the budget.
  ChatSettings settings;
};

Result<NamedTemplate> chosenTemplate(const ChatOptions &options, const Model &model) {
  if (options.chatTemplate.file)
    return readTemplate(options.chatTemplate);
  const auto &chat = model.artifact().chat;
  if (!chat || chat->templates.empty())
    return invalidInput(
        model.path(), " has no chat template, expected the one of its checkpoint "
                      "(tokenizer_config.json or chat_template.jinja); --template FILE gives one, "
                      "and moert run continues plain text");
  if (const NamedTemplate *found = templateOf(*chat, options.templateName))
    return *found;
  std::string names;
  for (const NamedTemplate &named : chat->templates)
    names += (names.empty() ? "" : ", ") + named.name;
  return invalidInput(model.path(), " has no chat template '",
                      options.templateName.value_or(std::string(kDefaultTemplate)),
                      "', expected --template-name with one of: ", names);
}

/// Renders a first message, so that a template that cannot be used is refused before loading.
Status startConversation(const ChatOptions &options, PreparedChat &prepared) {
  MOERT_ASSIGN_OR_RETURN(NamedTemplate named, chosenTemplate(options, *prepared.model));
  prepared.templateTitle = named.name;
  prepared.settings.answers = AnswerFormat(named.text);
  nlohmann::ordered_json variables = templateVariables(prepared.model->artifact().chat);
  MOERT_RETURN_IF_ERROR(addTemplateArguments(options.chatTemplate, variables));
  MOERT_ASSIGN_OR_RETURN(
      ConversationTemplate chosen,
      ConversationTemplate::compile(std::move(named.text), named.name, std::move(variables)));
  Conversation &conversation = prepared.conversation.emplace(std::move(chosen));
  MOERT_RETURN_IF_ERROR(checkUtf8(options.system, "--system"));
  conversation.setSystem(options.system);
  conversation.addUser("Hello");
  MOERT_RETURN_IF_ERROR(conversation.render(prepared.settings.templateLimits)
                            .status()
                            .withContext(prepared.model->path()));
  conversation.reset();
  return {};
}

Status chooseSampling(const ChatOptions &options, PreparedChat &prepared) {
  const Artifact &artifact = prepared.model->artifact();
  prepared.hasDefaults = artifact.sampling.has_value();
  MOERT_ASSIGN_OR_RETURN(prepared.sampling,
                         samplingOptionsOf(options.sampling, samplingOf(artifact.sampling)));
  const SamplingFlags &flags = options.sampling;
  if (prepared.sampling.temperature == 0 && (flags.topK || flags.topP || flags.minP))
    return invalidInput("--top-k, --top-p and --min-p without a temperature, expected --temp too: ",
                        flags.temperature ? "with --temp 0 nothing is drawn"
                                          : "the checkpoint does not sample");
  return check(prepared.sampling, artifact.model.vocabularySize);
}

void setContext(PreparedChat &prepared, uint32_t tokens) {
  prepared.contextTokens = tokens;
  TemplateLimits &limits = prepared.settings.templateLimits;
  limits.steps = limits.outputBytes = kTemplateSteps + kTemplateStepsPerToken * tokens;
}

Result<PreparedChat> prepare(const ChatOptions &options) {
  PreparedChat prepared;
  MOERT_ASSIGN_OR_RETURN(prepared.model, Model::openText(options.artifact));
  MOERT_RETURN_IF_ERROR(checkContinuesTexts(*prepared.model, "moert chat"));
  MOERT_RETURN_IF_ERROR(tokenizerOf(*prepared.model, "a conversation").status());
  const uint32_t positions = prepared.model->artifact().model.maxPositions;
  if (options.contextTokens && *options.contextTokens > positions)
    return invalidInput("--context ", *options.contextTokens, ", expected at most ", positions,
                        ", the positions of this model");
  setContext(prepared, options.contextTokens.value_or(std::min(positions, kDefaultContext)));
  ChatSettings &settings = prepared.settings;
  settings.maxTokens = options.maxTokens.value_or(kMostTokens);
  settings.onFull = options.onFull;
  settings.ngramStop = options.sampling.ngramStop;
  MOERT_RETURN_IF_ERROR(chooseSampling(options, prepared));
  settings.isGreedy = prepared.sampling.temperature == 0;
  MOERT_RETURN_IF_ERROR(startConversation(options, prepared));
  return prepared;
}

EngineOptions engineOptions(const ChatOptions &options, const PreparedChat &prepared) {
  EngineOptions engine = engineOptionsOf(options.engine);
  engine.contextTokens = prepared.contextTokens;
  engine.extraBytes =
      kFixedBytes + prepared.contextTokens * kTextBytesPerToken +
      prepared.settings.templateLimits.steps * kBytesPerStep +
      Sampler::memoryBytes(prepared.sampling, prepared.model->artifact().model.vocabularySize);
  return engine;
}

std::string samplingText(const SamplingOptions &sampling) {
  std::string text = sampling.temperature == 0 ? "greedy" : "temperature ";
  auto add = [&](const char *name, auto value, auto off) {
    if (value != off)
      text += strCat(", ", name, " ", value);
  };
  if (sampling.temperature > 0) {
    text += strCat(sampling.temperature);
    add("top-k", sampling.topK, 0u);
    add("top-p", sampling.topP, 1.f);
    add("min-p", sampling.minP, 0.f);
  }
  add("repetition penalty", sampling.repetitionPenalty, 1.f);
  add("presence penalty", sampling.presencePenalty, 0.f);
  add("frequency penalty", sampling.frequencyPenalty, 0.f);
  add("logit biases", sampling.logitBias.size(), size_t(0));
  if (sampling.temperature > 0)
    text += strCat(", seed ", sampling.seed);
  return text;
}

/// The default context is what the budget has memory for.
void fitContext(const ChatOptions &options, PreparedChat &prepared) {
  const uint32_t wanted = prepared.contextTokens;
  auto optionsFor = [&](uint32_t tokens) {
    setContext(prepared, tokens);
    return engineOptions(options, prepared);
  };
  setContext(prepared, contextWithinBudget(*prepared.model, wanted, optionsFor));
  prepared.isContextReduced = prepared.contextTokens < wanted;
}

std::string contextText(const PreparedChat &prepared, uint32_t capacity) {
  return strCat("context    ", capacity, " tokens",
                prepared.isContextReduced
                    ? ", for which the budget has memory; a larger --memory has room for more"
                    : "");
}

std::string startText(const Artifact &artifact, const PreparedChat &prepared, uint32_t capacity) {
  return strCat("quality    ", qualityText(artifact), "\ntemplate   ", prepared.templateTitle, "\n",
                contextText(prepared, capacity), "\nsampling   ", samplingText(prepared.sampling),
                prepared.hasDefaults ? " (the checkpoint's, where no option says otherwise)"
                                     : " (the checkpoint states none)",
                "\n/help lists the commands; Ctrl-C ends an answer, Ctrl-D the conversation");
}

Status chat(const ChatOptions &options) {
  MOERT_ASSIGN_OR_RETURN(PreparedChat prepared, prepare(options));
  const uint32_t vocabularySize = prepared.model->artifact().model.vocabularySize;
  if (!options.contextTokens)
    fitContext(options, prepared);
  const EngineOptions engine = engineOptions(options, prepared);
  const NoticeFlags &notices = options.engine.notices;
  MOERT_ASSIGN_OR_RETURN(LoadedModel loaded, loadModel(std::move(prepared.model), engine, notices,
                                                       {.levers = "a smaller --context"}));
  const ChatSignals signals = catchChatSignals();
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, loaded.engine->createSession());
  MOERT_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(prepared.sampling, vocabularySize));
  prepared.settings.followsMemory = options.engine.followsMemory;
  MOERT_ASSIGN_OR_RETURN(const uint64_t smallest, smallestBudget(*loaded.model, engine));
  prepared.settings.maxTokens = std::min(prepared.settings.maxTokens, session->capacity());

  ChatScreen screen(
      options.reasoning.value_or(isOutputTerminal() ? ReasoningView::kDim : ReasoningView::kHide));
  const bool isStartShown = !options.message || notices.isVerbose;
  if (!notices.isQuiet && !isStartShown && prepared.isContextReduced)
    screen.notice(contextText(prepared, session->capacity()));
  if (!notices.isQuiet && isStartShown)
    screen.notice(startText(loaded.model->artifact(), prepared, session->capacity()));
  Chat conversation(loaded, *session, sampler, std::move(*prepared.conversation), prepared.settings,
                    screen, signals, smallest);
  if (options.message)
    return conversation.answerOnce(*options.message);
  const std::unique_ptr<LineReader> reader =
      makeLineReader(options.keepsNoHistory ? "" : defaultHistoryPath());
  return conversation.run(*reader);
}

/// An option whose value is one of two or three words.
template <typename Value>
void addChoice(CLI::App &command, const std::string &name, const std::string &group,
               std::vector<std::pair<std::string, Value>> choices, std::function<void(Value)> set,
               const std::string &description) {
  std::string names;
  for (const auto &[word, value] : choices)
    names += (names.empty() ? "" : "|") + word;
  auto take = [name, choices, names, set](const std::string &text) {
    for (const auto &[word, value] : choices)
      if (word == text)
        return set(value);
    throw CLI::ValidationError(name, strCat("'", text, "', expected ", names));
  };
  command.add_option_function<std::string>(name, take, description)->type_name(names)->group(group);
}

void addConversationOptions(CLI::App &command, ChatOptions &options) {
  const std::string group = "Conversation";
  command
      .add_option("-p,--prompt,text", options.message,
                  "Answer this message and end, with or without -p (default: messages are read)")
      ->type_name("TEXT")
      ->group(group);
  command.add_option("--system", options.system, "The system message (default: none)")
      ->type_name("TEXT")
      ->group(group);
  CLI::Option *file = addTemplateFlags(command, options.chatTemplate, group);
  command
      .add_option("--template-name", options.templateName,
                  "Which of the checkpoint's templates; moec inspect lists them (default: default)")
      ->type_name("NAME")
      ->group(group)
      ->excludes(file);
  addTokens(
      command, 1,
      [&options](uint32_t n) {
        options.maxTokens = n == kNoLimit ? std::nullopt : std::optional(n);
      },
      "Most tokens of an answer (default: -1, what the context has room for)")
      ->group(group);
  addCount(
      command, "--context", 16, kMostTokens, [&options](uint32_t n) { options.contextTokens = n; },
      strCat(
          "Tokens of the conversation that the KV cache has room for (default: ", kDefaultContext,
          ", or the model's positions if they are fewer; less if the budget is small)"))
      ->group(group);
  addChoice<OnFull>(
      command, "--on-full", group, {{"shift", OnFull::kShift}, {"stop", OnFull::kStop}},
      [&options](OnFull value) { options.onFull = value; },
      "When the context is full: drop the oldest turns, or end the answer (default: shift)");
  command
      .add_flag(
          "--no-history", options.keepsNoHistory,
          "Do not keep messages for the arrow keys in moert/chat-history of $XDG_STATE_HOME or "
          "~/.local/state")
      ->group(group);
  addChoice<ReasoningView>(
      command, "--reasoning", group,
      {{"show", ReasoningView::kShow},
       {"dim", ReasoningView::kDim},
       {"hide", ReasoningView::kHide}},
      [&options](ReasoningView value) { options.reasoning = value; },
      "The model's reasoning before an answer (default: dim, or hide if standard output is not a "
      "terminal)");
}

} // namespace

void addChatCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ChatOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command = app.add_subcommand("chat", "Converse, with the checkpoint's chat template");
  command->add_option("artifact", options->artifact, "The compiled model")
      ->type_name("OUT.moe")
      ->required();
  addConversationOptions(*command, *options);
  addSamplingFlags(*command, options->sampling,
                   {.checkpointDefault = "the checkpoint's", .cutsNeedTemperature = false});
  addEngineFlags(*command, options->engine, FollowMemory::kOffered);
  command->footer(
      "Reads messages from standard input or answers one; answers go to standard output.\n" +
      exampleFooter("moert chat qwen.moe --memory 6GiB --system \"Answer briefly.\""));
  command->callback([options, &chosen] { chosen = [options] { return chat(*options); }; });
}

} // namespace moert::cli
