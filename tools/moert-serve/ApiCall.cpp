#include "tools/moert-serve/ApiCall.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Status.h"
#include "runtime/text/grammar/Gbnf.h"
#include "runtime/text/grammar/JsonSchema.h"
#include "tools/moert-serve/ChatPrompt.h"
#include "tools/moert-serve/SchemaFields.h"
#include "tools/moert-serve/ToolFields.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace moert::serve {

namespace {

/// The API's own limits.
constexpr double kMostTemperature = 2;
constexpr uint32_t kMostTopScores = 20, kMostTopScoresOfText = 5, kMostStopTexts = 4;
constexpr uint32_t kDefaultTextTokens = 16;

ApiError tooLong(uint64_t prompt, std::optional<uint64_t> tokens, const ServedModelInfo &info,
                 bool isChat) {
  const char *what = isChat ? "messages" : "prompt";
  const std::string found = tokens ? strCat("you requested ", prompt + *tokens, " tokens (", prompt,
                                            " in the ", what, ", ", *tokens, " in the completion)")
                                   : strCat("your ", what, " resulted in ", prompt, " tokens");
  return invalidField(strCat("This model's maximum context length is ", info.contextTokens,
                             " tokens. However, ", found, ". Please reduce the length of the ",
                             what, tokens ? " or completion." : "."),
                      what, "context_length_exceeded");
}

/// The members that both calls have.
class CallReader {
public:
  CallReader(const Json &body, const ServedModelInfo &servedModel, ApiCall &readCall)
      : info(servedModel), call(readCall), fields(body, "") {}

  void readModel() {
    fields.require("model");
    const std::optional<std::string> name = fields.text("model");
    if (name && *name != info.name)
      fields.fail(unknownModel(*name));
  }

  void readCommon() {
    readModel();
    const SamplingOptions &defaults = info.sampling;
    base.sampling.temperature = decimal("temperature", 0, kMostTemperature, defaults.temperature);
    base.sampling.topP = decimal("top_p", 0, 1, defaults.topP);
    if (base.sampling.topP == 0)
      base.sampling.topP = 1e-6f; // The API's 0 means the most likely token.
    base.sampling.topK =
        static_cast<uint32_t>(fields.integer("top_k", 0, UINT32_MAX).value_or(defaults.topK));
    base.ignoresEndTokens = fields.flag("ignore_eos").value_or(false);
    choices = static_cast<uint32_t>(fields.integer("n", 1, info.mostSequences).value_or(1));
    call.choicesPerPrompt = choices;
    if (const Json *seed = fields.any("seed"); seed && seed->is_number_integer())
      base.sampling.seed = seed->get<uint64_t>(); // A negative one has a 64-bit pattern too.
    else
      base.sampling.seed = fields.integer("seed", 0, UINT64_MAX).value_or(info.drawSeed());
    readStops();
    readStream();
    base.sampling.presencePenalty = decimal("presence_penalty", -2, 2, 0);
    base.sampling.frequencyPenalty = decimal("frequency_penalty", -2, 2, 0);
    base.sampling.repetitionPenalty =
        decimal("repetition_penalty", 0.01, 100, defaults.repetitionPenalty);
    base.sampling.minP = decimal("min_p", 0, 1, defaults.minP);
    readBiases();
    fields.ignore(
        {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"});
  }

  /// Checks a prompt's length and adds its sequences.
  void add(std::vector<int32_t> prompt, std::string text, std::optional<uint64_t> maxTokens,
           std::optional<uint32_t> defaultTokens) {
    if (fields.error())
      return;
    const uint64_t room =
        info.contextTokens - std::min<uint64_t>(info.contextTokens, prompt.size());
    if (maxTokens ? prompt.size() + *maxTokens > info.contextTokens : room == 0)
      return fields.fail(tooLong(prompt.size(), maxTokens, info, call.isChat));
    if (call.sequences.size() + choices > info.mostSequences)
      return fields.fail(
          invalidField(strCat("Invalid 'prompt': prompts times 'n' give more than ",
                              info.mostSequences, " sequences, the most of one request."),
                       "prompt"));
    base.maxTokens = static_cast<uint32_t>(
        maxTokens.value_or(std::min<uint64_t>(room, defaultTokens.value_or(UINT32_MAX))));
    base.scoresPrompt = call.echoes && call.givesScores;
    if (call.givesScores)
      base.topScores = call.topScores;
    for (uint32_t i = 0; i < choices; ++i) {
      call.sequences.push_back(base);
      call.sequences.back().prompt = prompt;
      call.sequences.back().sampling.seed = base.sampling.seed + i;
      call.prompts.push_back(text);
    }
  }

  const ServedModelInfo &info;
  ApiCall &call;
  Fields fields;
  AnswerRequest base;
  uint32_t choices = 1;

private:
  float decimal(const char *name, double minimum, double maximum, double otherwise) {
    return static_cast<float>(fields.number(name, minimum, maximum).value_or(otherwise));
  }

  /// {"50256": -100}: -100 bans a token, as in OpenAI's API.
  void readBiases() {
    const Json *biases = fields.objectAt("logit_bias");
    if (!biases)
      return;
    Fields inner(*biases, "logit_bias.");
    for (const auto &member : biases->items()) {
      const std::string &name = member.key();
      uint32_t token = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
      if (error != std::errc() || end != name.data() + name.size() ||
          token >= info.model->artifact().model.vocabularySize)
        return fields.fail(
            invalidField(strCat("Invalid key in 'logit_bias': ", excerpt(name),
                                ", expected a token id from 0 to ",
                                info.model->artifact().model.vocabularySize - 1, "."),
                         "logit_bias"));
      if (const auto bias = inner.numberOf(name, member.value(), -100, 100))
        base.sampling.logitBias.push_back(
            {static_cast<int32_t>(token),
             *bias == -100 ? -std::numeric_limits<float>::infinity() : static_cast<float>(*bias)});
    }
    if (inner.error())
      fields.fail(*inner.error());
  }

  void readStops() {
    const Json *stop = fields.any("stop");
    if (!stop)
      return;
    std::vector<Json> texts;
    if (stop->is_array())
      texts.assign(stop->begin(), stop->end());
    else
      texts.push_back(*stop);
    if (texts.size() > kMostStopTexts)
      return fields.fail(invalidField(strCat("Invalid 'stop': array too long. Expected an array "
                                             "with maximum length ",
                                             kMostStopTexts, ", but got an array with length ",
                                             texts.size(), " instead."),
                                      "stop", "array_above_max_length"));
    for (const Json &text : texts) {
      if (!text.is_string() || text.get_ref<const std::string &>().empty())
        return fields.fail(invalidField(
            strCat("Invalid type for 'stop': expected a string that is not empty, or an array of "
                   "them, but got ",
                   text.is_string() ? "an empty string" : typeOf(text), " instead."),
            "stop", "invalid_type"));
      base.stopTexts.push_back(text.get<std::string>());
    }
  }

  void readStream() {
    call.isStreamed = fields.flag("stream").value_or(false);
    const Json *options = fields.objectAt("stream_options");
    if (!options)
      return;
    if (!call.isStreamed)
      return fields.fail(invalidField("The 'stream_options' parameter is only allowed when "
                                      "'stream' is enabled.",
                                      "stream_options"));
    Fields inner(*options, "stream_options.");
    call.streamsUsage = inner.flag("include_usage").value_or(false);
    inner.ignore({"include_obfuscation"});
    inner.refuseOthers();
    if (inner.error())
      fields.fail(*inner.error());
  }
};

void constrain(CallReader &reader, Grammar grammar) {
  reader.base.grammar = std::make_shared<const Grammar>(std::move(grammar));
  reader.base.tokenTexts = reader.info.tokenTexts;
}

/// "json_schema": {"name": ..., "schema": {...}}
void readSchema(Fields &format, CallReader &reader) {
  format.require("json_schema");
  const Json *member = format.objectAt("json_schema");
  if (!member)
    return;
  Fields fields(*member, format.nameOf("json_schema") + ".");
  fields.require("name");
  const std::string name = fields.text("name").value_or("");
  const bool isStrict = fields.flag("strict").value_or(false);
  fields.ignore({"description"});
  fields.require("schema");
  const Json *schema = fields.objectAt("schema");
  fields.refuseOthers();
  if (schema && !fields.error())
    if (auto grammar = readGrammarOf(grammarOfSchema(*schema), isStrict,
                                     strCat("response_format '", excerpt(name), "': "), fields,
                                     "response_format", reader.call))
      constrain(reader, std::move(*grammar));
  if (fields.error())
    format.fail(*fields.error());
}

/// "response_format": a text, any JSON object, or values of a schema.
void readFormat(CallReader &reader) {
  Fields &fields = reader.fields;
  const Json *format = fields.objectAt("response_format");
  if (!format)
    return;
  Fields inner(*format, "response_format.");
  inner.require("type");
  const std::string type = inner.text("type").value_or("text");
  if (type == "json_object")
    constrain(reader, grammarOfJsonObject());
  else if (type == "json_schema")
    readSchema(inner, reader);
  else if (type != "text")
    inner.fail(invalidField(strCat("Invalid value: '", excerpt(type),
                                   "'. Supported values are: 'text', 'json_object' and "
                                   "'json_schema'."),
                            "response_format.type"));
  inner.refuseOthers();
  if (inner.error())
    fields.fail(*inner.error());
}

/// "grammar": a text in llama.cpp's notation, as its clients send it.
void readGrammar(CallReader &reader) {
  Fields &fields = reader.fields;
  const std::optional<std::string> text = fields.text("grammar");
  if (!text)
    return;
  if (reader.base.grammar)
    return fields.fail(invalidField("Only one of 'grammar', 'response_format' and a required tool "
                                    "is supported.",
                                    "grammar"));
  Result<Grammar> grammar = grammarOfGbnf(*text);
  if (!grammar.isOk())
    return fields.fail(
        invalidField(strCat("Invalid 'grammar': ", grammar.status().message(), "."), "grammar"));
  constrain(reader, std::move(grammar).value());
}

/// A text, an array of texts, an array of ids, or an array of arrays of ids.
class PromptReader {
public:
  PromptReader(CallReader &callReader, std::optional<uint64_t> tokens)
      : reader(callReader), maxTokens(tokens) {}

  void read(const Json &prompt) {
    if (prompt.is_string())
      return addText(prompt.get<std::string>());
    if (prompt.is_array() && !prompt.empty() && prompt.front().is_number())
      return addIds(prompt);
    if (!prompt.is_array() || prompt.empty())
      return refuse(prompt);
    for (const Json &one : prompt) {
      if (one.is_string())
        addText(one.get<std::string>());
      else if (one.is_array())
        addIds(one);
      else
        refuse(one);
    }
  }

private:
  const Tokenizer &tokenizer() const { return *reader.info.model->tokenizer(); }

  void refuse(const Json &found) {
    reader.fields.fail(invalidField(
        "Invalid type for 'prompt': expected a string, an array of strings, an array of token ids, "
        "or an array of such arrays, but got " +
            typeOf(found) + " instead.",
        "prompt", "invalid_type"));
  }

  void addText(const std::string &text) {
    Result<std::vector<int32_t>> ids = tokenizer().encode(text, true);
    if (!ids.isOk())
      return reader.fields.fail(invalidField(ids.status().message(), "prompt"));
    add(std::move(ids).value(), text);
  }

  void addIds(const Json &array) {
    const uint32_t vocabulary = reader.info.model->artifact().model.vocabularySize;
    std::vector<int32_t> ids;
    for (const Json &id : array) {
      if (!id.is_number_integer())
        return refuse(id);
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocabulary)
        return reader.fields.fail(invalidField(strCat("Invalid 'prompt': token id ", id.dump(),
                                                      ", expected 0 to ", vocabulary - 1, "."),
                                               "prompt"));
      ids.push_back(static_cast<int32_t>(id.get<uint64_t>()));
    }
    std::string text = reader.call.echoes ? tokenizer().decode(ids, false) : std::string();
    add(std::move(ids), std::move(text));
  }

  void add(std::vector<int32_t> ids, std::string text) {
    const ModelInfo &model = reader.info.model->artifact().model;
    if (ids.empty() && model.bosToken)
      ids.push_back(*model.bosToken);
    if (ids.empty())
      return reader.fields.fail(invalidField("Invalid 'prompt': it has no tokens, and this model "
                                             "has none that begins a text.",
                                             "prompt"));
    reader.add(std::move(ids), std::move(text), maxTokens, kDefaultTextTokens);
  }

  CallReader &reader;
  const std::optional<uint64_t> maxTokens;
};

/// Variables of the template: "chat_template_kwargs", as other servers name them, the API's own
/// "reasoning_effort", and "enable_thinking".
Json readVariables(Fields &fields) {
  Json variables = Json::object();
  if (const Json *given = fields.objectAt("chat_template_kwargs"))
    variables = *given;
  auto setThinking = [&variables](bool thinks) {
    // Qwen's and GLM's name; DeepSeek's and Granite's.
    for (const char *name : {"enable_thinking", "thinking"})
      if (!variables.contains(name))
        variables[name] = thinks;
  };
  if (const auto effort = fields.text("reasoning_effort")) {
    if (!variables.contains("reasoning_effort"))
      variables["reasoning_effort"] = *effort;
    if (*effort == "none")
      setThinking(false);
  }
  if (const auto thinks = fields.flag("enable_thinking"))
    setThinking(*thinks);
  return variables;
}

/// How the answers are read. Those of a format have neither reasoning nor calls.
void setReading(CallReader &reader, std::string_view prompt) {
  ApiCall &call = reader.call;
  if (reader.base.grammar && !call.forcesTool)
    return;
  // The longest marker that may begin reasoning, with white space after it.
  constexpr size_t kMostEndBytes = 256;
  call.answers = &reader.info.chatFormat->answers();
  if (!call.forcesTool)
    call.promptEnd = prompt.substr(prompt.size() - std::min(prompt.size(), kMostEndBytes));
  reader.base.shownTokens = call.answers->tokens(*reader.info.model->tokenizer(), call.toolCalls);
}

} // namespace

SamplingOptions defaultSampling(const std::optional<SamplingDefaults> &stated) {
  SamplingOptions options = samplingOf(stated);
  const bool isGreedy = stated && stated->doSample == false;
  if (!isGreedy && options.temperature == 0)
    options.temperature = 1;
  return options;
}

std::optional<ApiError> readCompletionCall(const Json &body, const ServedModelInfo &info,
                                           ApiCall &call) {
  CallReader reader(body, info, call);
  Fields &fields = reader.fields;
  reader.readCommon();
  call.echoes = fields.flag("echo").value_or(false);
  if (const auto count = fields.integer("logprobs", 0, kMostTopScoresOfText)) {
    call.givesScores = true;
    call.topScores = static_cast<uint32_t>(*count);
  }
  fields.only("best_of", reader.choices, "only as many sequences as 'n' are generated");
  fields.only("suffix", "", "text is only generated after the prompt");
  readGrammar(reader);
  fields.require("prompt");
  const std::optional<uint64_t> maxTokens =
      fields.integer("max_tokens", call.echoes ? 0 : 1, UINT32_MAX);
  fields.refuseOthers();
  if (const Json *prompt = fields.any("prompt"))
    PromptReader(reader, maxTokens).read(*prompt);
  return fields.error();
}

std::optional<ApiError> readChatCall(const Json &body, const ServedModelInfo &info, ApiCall &call) {
  call.isChat = true;
  CallReader reader(body, info, call);
  Fields &fields = reader.fields;
  reader.readCommon();
  call.givesScores = fields.flag("logprobs").value_or(false);
  if (const auto count = fields.integer("top_logprobs", 0, kMostTopScores)) {
    call.topScores = static_cast<uint32_t>(*count);
    if (!call.givesScores)
      fields.fail(invalidField("The 'top_logprobs' parameter is only allowed when 'logprobs' is "
                               "enabled.",
                               "top_logprobs"));
  }
  readFormat(reader);
  ChatInput input;
  input.tools = readTools(fields, info, call, reader.base);
  readGrammar(reader);
  input.variables = readVariables(fields);
  fields.require("messages");
  std::optional<uint64_t> maxTokens = fields.integer("max_completion_tokens", 1, UINT32_MAX);
  if (const auto older = fields.integer("max_tokens", 1, UINT32_MAX); older && !maxTokens)
    maxTokens = older;
  const Json *messages = fields.array("messages");
  fields.refuseOthers();
  if (!messages || fields.error())
    return fields.error();
  if (auto error = readMessages(*messages, input.messages))
    return error;
  const Tokenizer &tokenizer = *info.model->tokenizer();
  ChatPrompt prompt;
  const auto begin = call.forcesTool ? std::optional(call.callBegin) : std::nullopt;
  if (auto error = makeChatPrompt(input, *info.chatFormat, tokenizer, begin, prompt))
    return error;
  if (info.hasStates)
    reader.base.sharedTokens = sharedTokensOf(input, *info.chatFormat, tokenizer, prompt.tokens);
  setReading(reader, prompt.text);
  const std::vector<std::string> &stops = info.chatFormat->stopTexts();
  reader.base.stopTexts.insert(reader.base.stopTexts.end(), stops.begin(), stops.end());
  reader.add(std::move(prompt.tokens), {}, maxTokens, {});
  return fields.error();
}

} // namespace moert::serve
