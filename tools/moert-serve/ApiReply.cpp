#include "tools/moert-serve/ApiReply.h"

#include "runtime/base/Status.h"
#include "runtime/base/Utf8.h"

#include <algorithm>
#include <utility>

namespace moert::serve {

namespace {

uint64_t charactersOf(std::string_view text) {
  return static_cast<uint64_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// A token of a part of a character as the API writes it in texts.
std::string textOfBytes(std::string_view bytes) {
  std::string text = "bytes:";
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += {'\\', 'x', "0123456789abcdef"[value >> 4], "0123456789abcdef"[value & 15]};
  }
  return text;
}

std::string eventOf(const Json &data) {
  return "data: " + textOf(data) + "\n\n";
}

} // namespace

AnswerReader::Emit ApiReply::Choice::keep(bool isEnd) {
  return [this, isEnd](AnswerPart part, std::string_view piece, const ToolCall *tool) {
    if (part == AnswerPart::kAnswer) {
      breakCalls(isEnd);
      text += piece;
    }
    if (part == AnswerPart::kReasoning)
      reasoning += piece;
    if (!tool)
      return;
    if (!begun.empty())
      begun.erase(begun.begin());
    if (mayCall())
      tools.push_back(*tool);
  };
}

void ApiReply::Choice::take(std::string_view answerText) {
  if (reader)
    reader->feed(answerText, keep(false));
  else
    text += answerText;
  if (reader && isStreamed)
    followCalls();
}

void ApiReply::Choice::finish() {
  if (!reader)
    return;
  followCalls();
  const size_t textBytes = text.size(), broken = brokenCalls;
  reader->finish(keep(true));
  if (brokenCalls > broken)
    text.resize(textBytes); // That of a call that was cut off.
}

/// Keeps what calls have so far.
void ApiReply::Choice::followCalls() {
  std::span<const ToolCall> now = reader->begunCalls();
  if (!allowsCalls)
    now = now.first(std::min<size_t>(now.size(), mayCall() ? 1 : 0));
  if (now.empty())
    breakCalls(false);
  for (size_t i = 0; i < now.size(); ++i)
    if (i == begun.size())
      begun.push_back(now[i]);
    else
      begun[i].arguments.append(now[i].arguments, begun[i].arguments.size());
}

/// Calls that were begun are none. Where a client has the beginning, or at the answer's end, which
/// cut them off, they stay calls.
void ApiReply::Choice::breakCalls(bool isEnd) {
  for (ToolCall &tool : begun)
    if (isEnd || tools.size() < sent.size()) {
      tools.push_back(std::move(tool));
      ++brokenCalls;
    }
  begun.clear();
}

bool ApiReply::Choice::hasNewCalls() const {
  const auto isNew = [this](const ToolCall &call, size_t number) {
    return number >= sent.size() || sent[number] < call.arguments.size();
  };
  for (size_t i = 0; i < tools.size() + begun.size(); ++i)
    if (isNew(i < tools.size() ? tools[i] : begun[i - tools.size()], i))
      return true;
  return false;
}

/// As the API names the ends.
const char *ApiReply::Choice::endReason() const {
  if (brokenCalls == 0 && (earlierTools > 0 || !tools.empty()))
    return "tool_calls";
  return end == AnswerEnd::kLength ? "length" : "stop";
}

ApiReply::ApiReply(ReplyHead replyHead, ApiCall apiCall, const Tokenizer &textTokenizer,
                   std::vector<std::shared_ptr<Answer>> submitted)
    : head(std::move(replyHead)), call(std::move(apiCall)), tokenizer(textTokenizer) {
  if (call.response)
    response.emplace(head.id, head.model, head.created, *call.response);
  for (std::shared_ptr<Answer> &answer : submitted) {
    choices.push_back({std::move(answer)});
    choices.back().isStreamed = call.isStreamed;
    if (!call.answers)
      continue;
    choices.back().allowsCalls = call.allowsCalls;
    choices.back().reader.emplace(*call.answers, call.promptEnd, call.toolCalls, &call.toolTypes);
    if (call.forcesTool)
      choices.back().take(call.callBegin);
  }
}

bool ApiReply::hasEnded() const {
  return std::all_of(choices.begin(), choices.end(),
                     [](const Choice &choice) { return choice.end.has_value(); });
}

void ApiReply::fail(const Choice &choice, const Status &status) {
  if (failure)
    return;
  if (choice.end == AnswerEnd::kRejected) {
    failure = invalidField(
        "The answer cannot be continued in the required format: " + status.message() + ".",
        call.forcesTool ? "tools" : "response_format");
    return;
  }
  ApiError error;
  error.status = 500;
  error.type = "server_error";
  error.message = "The model could not complete the request: " + status.message();
  if (choice.end == AnswerEnd::kNoMemory)
    error.status = 503;
  if (choice.end == AnswerEnd::kCancelled) {
    error.status = 503;
    error.message = "The server is stopping and did not complete the request.";
  }
  failure = std::move(error);
}

bool ApiReply::collect(std::chrono::milliseconds most) {
  for (Choice &choice : choices) {
    if (choice.end)
      continue;
    AnswerNews news = choice.answer->take(most);
    // The others had time to have news as well.
    most = std::chrono::milliseconds(0);
    for (AnswerPiece &piece : news.pieces) {
      choice.tokens += piece.token.has_value();
      collectedText += piece.text.size();
      collectedScores += piece.score ? piece.score->top.size() + 1 : 0;
      choice.take(piece.text);
      if (piece.token && choice.reader && choice.reader->isReasoning())
        ++choice.reasoningTokens;
      // Without scores, tokens are of no more use than their text.
      if (call.givesScores)
        choice.pieces.push_back(std::move(piece));
    }
    for (TokenScore &score : news.promptScores) {
      collectedScores += score.top.size() + 1;
      choice.promptScores.push_back(std::move(score));
    }
    choice.cachedTokens = news.cachedTokens;
    choice.end = news.end;
    if (choice.end)
      choice.finish();
    if (choice.end == AnswerEnd::kRejected || choice.end == AnswerEnd::kFailed ||
        choice.end == AnswerEnd::kNoMemory || choice.end == AnswerEnd::kCancelled)
      fail(choice, news.status);
  }
  return hasEnded();
}

uint64_t ApiReply::takeGrowth(uint64_t scoreBytes) {
  // A text by itself, in the object and as JSON, where a character takes up to six bytes. The last
  // events of a response repeat it, as a text and as a part of an item and of the output.
  const uint64_t textCopies = response ? 32 : 8;
  return std::exchange(collectedText, 0) * textCopies +
         std::exchange(collectedScores, 0) * scoreBytes;
}

Json ApiReply::headOf(const char *object) const {
  return {{"id", (call.isChat ? "chatcmpl-" : "cmpl-") + head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model}};
}

std::string ApiReply::tokenText(int32_t token) const {
  return tokenizer.decode({&token, 1}, false);
}

std::string ApiReply::tokenBytes(int32_t token) const {
  return tokenizer.isSpecial(token) ? std::string(tokenizer.contentOf(token))
                                    : tokenizer.bytesOf(token);
}

// "tokens", "token_logprobs" and so on, an entry per token; of the prompt too if it is echoed.
Json ApiReply::textScores(size_t index, Choice &choice) const {
  Json tokens = Json::array(), values = Json::array(), top = Json::array(), offsets = Json::array();
  const auto nameOf = [this](int32_t token) {
    const std::string bytes = tokenBytes(token);
    return isValidUtf8(bytes) ? tokenText(token) : textOfBytes(bytes);
  };
  auto append = [&](int32_t token, const TokenScore *score, const std::string &text) {
    tokens.push_back(nameOf(token));
    values.push_back(score ? Json(score->logProbability) : Json());
    offsets.push_back(choice.offset);
    choice.offset += charactersOf(text);
    Json best = Json::object();
    if (score)
      for (const auto &[other, value] : score->top)
        best.emplace(nameOf(other), value); // The first of equal texts is the most probable.
    top.push_back(score && call.topScores > 0 ? std::move(best) : Json());
  };
  if (call.echoes && !choice.hasBegun) {
    const std::vector<int32_t> &prompt = call.sequences[index].prompt;
    for (size_t i = 0; i < prompt.size(); ++i)
      append(prompt[i], i == 0 ? nullptr : &choice.promptScores.at(i - 1), tokenText(prompt[i]));
  }
  for (const AnswerPiece &piece : choice.pieces)
    if (piece.token)
      append(*piece.token, piece.score ? &*piece.score : nullptr, piece.text);
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(top)},
          {"text_offset", std::move(offsets)}};
}

Json ApiReply::chatScores(const Choice &choice) const {
  auto entryOf = [&](int32_t token, double value) -> Json {
    Json bytes = Json::array();
    for (char byte : tokenBytes(token))
      bytes.push_back(static_cast<unsigned char>(byte));
    return {{"token", tokenText(token)}, {"logprob", value}, {"bytes", std::move(bytes)}};
  };
  Json content = Json::array();
  for (const AnswerPiece &piece : choice.pieces) {
    if (!piece.score)
      continue;
    Json entry = entryOf(piece.score->token, piece.score->logProbability);
    Json top = Json::array();
    for (const auto &[token, value] : piece.score->top)
      top.push_back(entryOf(token, value));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json ApiReply::choiceOf(size_t index, Choice &choice, bool isChunk) const {
  std::string text;
  if (call.echoes && !choice.hasBegun)
    text = call.prompts[index];
  text += std::exchange(choice.text, {});
  Json json = {{"index", index}};
  if (!call.isChat) {
    json["text"] = text;
    json["logprobs"] = call.givesScores ? textScores(index, choice) : Json();
  } else {
    Json message = Json::object();
    if (!isChunk || !choice.hasBegun)
      message["role"] = "assistant";
    Json calls = isChunk ? callDeltas(index, choice) : toolCalls(index, choice);
    const bool isOther = !choice.reasoning.empty() || !calls.empty();
    if (!isChunk || !text.empty() || (!choice.hasBegun && !isOther))
      message["content"] = text.empty() && !calls.empty() ? Json() : Json(text);
    if (!choice.reasoning.empty())
      message["reasoning_content"] = std::exchange(choice.reasoning, {});
    if (!isChunk)
      message["refusal"] = nullptr;
    if (!calls.empty())
      message["tool_calls"] = std::move(calls);
    json[isChunk ? "delta" : "message"] = std::move(message);
    json["logprobs"] = call.givesScores ? chatScores(choice) : Json();
  }
  json["finish_reason"] = isChunk ? Json() : Json(choice.endReason());
  choice.hasBegun = true;
  return json;
}

std::string ApiReply::callId(size_t index, uint64_t number) const {
  if (!call.answers || call.answers->calls() != &kMistralForm)
    return strCat("call_", head.id, "_", index, "_", number);
  // Its templates take nine letters and digits only.
  constexpr size_t kIdBytes = 9;
  const std::string id = strCat(head.id, index, number);
  return id.substr(id.size() - std::min(id.size(), kIdBytes));
}

Json ApiReply::toolCalls(size_t index, Choice &choice) const {
  Json list = Json::array();
  for (const ToolCall &tool : choice.tools)
    list.push_back({{"id", callId(index, list.size())},
                    {"type", "function"},
                    {"function", {{"name", tool.name}, {"arguments", tool.arguments}}}});
  return list;
}

Json ApiReply::callDeltas(size_t index, Choice &choice) const {
  Json list = Json::array();
  for (size_t i = 0; i < choice.tools.size() + choice.begun.size(); ++i) {
    const size_t complete = choice.tools.size();
    const ToolCall &tool = i < complete ? choice.tools[i] : choice.begun[i - complete];
    const uint64_t number = choice.earlierTools + i;
    Json entry = {{"index", number}}, function = Json::object();
    const bool isFirst = i == choice.sent.size();
    if (isFirst) {
      entry.update({{"id", callId(index, number)}, {"type", "function"}});
      function["name"] = tool.name;
      choice.sent.push_back(0);
    }
    function["arguments"] = tool.arguments.substr(choice.sent[i]);
    if (!isFirst && choice.sent[i] == tool.arguments.size())
      continue;
    choice.sent[i] = tool.arguments.size();
    entry["function"] = std::move(function);
    list.push_back(std::move(entry));
  }
  choice.earlierTools += choice.tools.size();
  choice.sent.erase(choice.sent.begin(),
                    choice.sent.begin() + static_cast<ptrdiff_t>(choice.tools.size()));
  choice.tools.clear();
  return list;
}

Json ApiReply::usage() const {
  uint64_t prompt = 0, cached = 0, generated = 0, reasoning = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    generated += choices[i].tokens;
    reasoning += choices[i].reasoningTokens;
    if (i % call.choicesPerPrompt != 0)
      continue; // A prompt counts once.
    prompt += call.sequences[i].prompt.size();
    cached += choices[i].cachedTokens;
  }
  Json json = {{"prompt_tokens", prompt},
               {"completion_tokens", generated},
               {"total_tokens", prompt + generated},
               {"prompt_tokens_details", {{"cached_tokens", cached}}}};
  if (call.isChat)
    json["completion_tokens_details"] = {{"reasoning_tokens", reasoning}};
  return json;
}

std::string ApiReply::whole() {
  Json body = headOf(call.isChat ? "chat.completion" : "text_completion");
  Json list = Json::array();
  for (size_t i = 0; i < choices.size(); ++i)
    list.push_back(choiceOf(i, choices[i], false));
  body["choices"] = std::move(list);
  body["usage"] = usage();
  return textOf(response ? response->whole(body) : body);
}

std::string ApiReply::takeEvents() {
  if (failure)
    return response ? response->eventsOf(*failure) : "data: " + bodyOf(*failure) + "\n\n";
  std::string events;
  for (const Json &chunk : takeChunks())
    events += response ? response->eventsOf(chunk) : eventOf(chunk);
  if (hasEnded() && !response)
    events += "data: [DONE]\n\n";
  return events;
}

std::vector<Json> ApiReply::takeChunks() {
  std::vector<Json> chunks;
  auto append = [&](Json choice) {
    Json chunk = headOf(call.isChat ? "chat.completion.chunk" : "text_completion");
    chunk["choices"] = Json::array({std::move(choice)});
    if (call.streamsUsage)
      chunk["usage"] = nullptr;
    chunks.push_back(std::move(chunk));
  };
  for (size_t i = 0; i < choices.size(); ++i) {
    Choice &choice = choices[i];
    if (choice.hasFinished)
      continue;
    // Scores wait for what they belong to.
    const bool waits = call.isChat && !choice.end;
    if (!choice.text.empty() || !choice.reasoning.empty() || choice.hasNewCalls() ||
        (!choice.pieces.empty() && !waits) || (choice.end && !choice.hasBegun)) {
      append(choiceOf(i, choice, true));
      choice.pieces.clear();
    }
    if (!choice.end)
      continue;
    choice.hasFinished = true;
    Json last = {{"index", i}};
    if (call.isChat)
      last["delta"] = Json::object();
    else
      last["text"] = "";
    last["logprobs"] = nullptr;
    last["finish_reason"] = choice.endReason();
    append(std::move(last));
  }
  if (hasEnded() && call.streamsUsage) {
    Json chunk = headOf(call.isChat ? "chat.completion.chunk" : "text_completion");
    chunk["choices"] = Json::array();
    chunk["usage"] = usage();
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

} // namespace moert::serve
