#include "tools/moert-serve/Responses.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Status.h"

#include <array>
#include <utility>

namespace moert::serve {

namespace {

/// Takes a member out of an object; null without it.
Json taken(Json &object, const char *name) {
  const auto found = object.find(name);
  if (found == object.end())
    return {};
  Json value = std::move(*found);
  object.erase(found);
  return value;
}

std::string textAt(const Json &object, const char *name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Parts of a message or of reasoning, as a chat has them.
Json partsOf(Json parts) {
  if (!parts.is_array())
    return parts;
  for (Json &part : parts) {
    const std::string type = part.is_object() ? textAt(part, "type") : "";
    if (type == "input_text" || type == "output_text")
      part = {{"type", "text"}, {"text", taken(part, "text")}};
  }
  return parts;
}

/// Turns items of "input" into messages.
class InputReader {
public:
  std::optional<ApiError> add(Json item, const std::string &name) {
    if (!item.is_object())
      return invalidField(strCat("Invalid type for '", name, "': expected an object, but got ",
                                 typeOf(item), " instead."),
                          name, "invalid_type");
    const std::string type = item.contains("role") ? "message" : textAt(item, "type");
    if (type == "message") {
      Json message = {{"role", taken(item, "role")}, {"content", partsOf(taken(item, "content"))}};
      if (message["role"] == "assistant")
        addReasoning(message);
      messages.push_back(std::move(message));
    } else if (type == "function_call") {
      Json &calls = assistant()["tool_calls"];
      calls.push_back(
          {{"id", taken(item, "call_id")},
           {"type", "function"},
           {"function", {{"name", taken(item, "name")}, {"arguments", taken(item, "arguments")}}}});
    } else if (type == "function_call_output") {
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", taken(item, "call_id")},
                          {"content", partsOf(taken(item, "output"))}});
    } else if (type == "reasoning") {
      for (const Json &part : item.value("content", Json::array()))
        reasoning += part.is_object() ? textAt(part, "text") : "";
    } else {
      return invalidField(strCat("Invalid value: '", excerpt(type),
                                 "'. Supported values are: 'message', 'function_call', "
                                 "'function_call_output' and 'reasoning'."),
                          name + ".type");
    }
    return {};
  }

  Json messages = Json::array();

private:
  void addReasoning(Json &message) {
    if (!reasoning.empty())
      message["reasoning_content"] = std::exchange(reasoning, {});
  }

  /// The message that a call belongs to.
  Json &assistant() {
    if (messages.empty() || messages.back()["role"] != "assistant") {
      messages.push_back({{"role", "assistant"}, {"content", nullptr}});
      addReasoning(messages.back());
    }
    return messages.back();
  }

  std::string reasoning; // The next message has it.
};

std::optional<ApiError> readInput(Json input, const Json &instructions, Json &messages) {
  InputReader reader;
  if (!instructions.is_null())
    reader.messages.push_back({{"role", "system"}, {"content", instructions}});
  if (input.is_string())
    reader.messages.push_back({{"role", "user"}, {"content", std::move(input)}});
  for (size_t i = 0; input.is_array() && i < input.size(); ++i)
    if (auto error = reader.add(std::move(input[i]), strCat("input[", i, "]")))
      return error;
  messages = std::move(reader.messages);
  return {};
}

/// {"type": "function", "name": ...} as a chat has tools and their choice, {"type": "function",
/// "function": {"name": ...}}.
Json nested(Json flat, const char *inner) {
  if (!flat.is_object() || flat.value("type", Json()) == "text" || !flat.contains("type"))
    return flat;
  Json type = taken(flat, "type");
  if (flat.empty())
    return {{"type", std::move(type)}};
  return {{"type", std::move(type)}, {inner, std::move(flat)}};
}

/// Members that a response repeats, with their defaults.
Json echoOf(const Json &body) {
  Json echo = {{"instructions", nullptr},
               {"max_output_tokens", nullptr},
               {"metadata", Json::object()},
               {"parallel_tool_calls", true},
               {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
               {"temperature", nullptr},
               {"text", {{"format", {{"type", "text"}}}}},
               {"tool_choice", "auto"},
               {"tools", Json::array()},
               {"top_p", nullptr},
               {"user", nullptr}};
  for (const auto &member : echo.items())
    if (body.contains(member.key()) && !body[member.key()].is_null())
      member.value() = body[member.key()];
  return echo;
}

std::optional<ApiError> checkMembers(const Json &body) {
  Fields fields(body, "");
  fields.require("input");
  const Json *input = fields.any("input");
  if (input && !input->is_string() && !input->is_array())
    fields.fail(invalidField("Invalid type for 'input': expected a string or an array of items, "
                             "but got " +
                                 typeOf(*input) + " instead.",
                             "input", "invalid_type"));
  for (const char *name : {"previous_response_id", "conversation", "prompt"})
    if (fields.any(name))
      fields.fail(invalidField(strCat("Unsupported parameter: '", name,
                                      "': this server stores nothing; send the conversation in "
                                      "'input'."),
                               name, "unsupported_parameter"));
  for (const char *name : {"messages", "n", "response_format", "logprobs"})
    if (fields.any(name))
      fields.fail(invalidField(strCat("Unrecognized request argument supplied: ", name), name,
                               "unknown_parameter"));
  fields.only("background", false, "responses are not stored");
  fields.only("truncation", "disabled", "a prompt that is too long is refused");
  fields.text("instructions");
  fields.objectAt("text");
  fields.objectAt("reasoning");
  return fields.error();
}

} // namespace

std::optional<ApiError> readResponseCall(Json body, const ServedModelInfo &info, ApiCall &call) {
  if (auto error = checkMembers(body))
    return error;
  Json echo = echoOf(body);
  for (const char *name : {"background", "truncation", "include", "previous_response_id",
                           "conversation", "prompt", "stream_options", "max_tool_calls"})
    taken(body, name);
  Json messages;
  if (auto error = readInput(taken(body, "input"), taken(body, "instructions"), messages))
    return error;
  body["messages"] = std::move(messages);
  body["max_completion_tokens"] = taken(body, "max_output_tokens");
  if (const Json reasoning = taken(body, "reasoning"); reasoning.is_object())
    body["reasoning_effort"] = reasoning.value("effort", Json());
  if (Json text = taken(body, "text"); text.is_object() && text.contains("format"))
    body["response_format"] = nested(taken(text, "format"), "json_schema");
  if (body.contains("tool_choice"))
    body["tool_choice"] = nested(taken(body, "tool_choice"), "function");
  if (body.contains("tools") && body["tools"].is_array())
    for (Json &tool : body["tools"])
      tool = nested(std::move(tool), "function");
  if (auto error = readChatCall(body, info, call))
    return error;
  call.response = std::move(echo);
  call.streamsUsage = true;
  return {};
}

ResponseWriter::ResponseWriter(const std::string &replyId, const std::string &model,
                               int64_t created, const Json &echoed)
    : id(replyId) {
  response = {{"id", "resp_" + id},
              {"object", "response"},
              {"created_at", created},
              {"status", "in_progress"},
              {"background", false},
              {"error", nullptr},
              {"incomplete_details", nullptr},
              {"model", model},
              {"output", Json::array()},
              {"previous_response_id", nullptr},
              {"store", false},
              {"truncation", "disabled"},
              {"usage", nullptr}};
  response.update(echoed);
}

void ResponseWriter::add(const char *type, Json members) {
  Json event = {{"type", type}, {"sequence_number", eventCount++}};
  for (const auto &member : members.items())
    event[member.key()] = std::move(member.value());
  events += strCat("event: ", type, "\ndata: ", textOf(event), "\n\n");
}

void ResponseWriter::addOfItem(const char *type, Json members) {
  Json event = {{"item_id", item()["id"]}, {"output_index", response["output"].size() - 1}};
  event.update(members);
  add(type, std::move(event));
}

void ResponseWriter::open(const char *type, Json opened) {
  close();
  const size_t index = response["output"].size();
  Json started = {{"id", strCat(type == std::string_view("message")     ? "msg_"
                                : type == std::string_view("reasoning") ? "rs_"
                                                                        : "fc_",
                                id, "_", index)},
                  {"type", type},
                  {"status", "in_progress"}};
  started.update(opened);
  response["output"].push_back(std::move(started));
  isOpen = true;
  add("response.output_item.added", {{"output_index", index}, {"item", item()}});
}

/// Text of a message or of reasoning.
void ResponseWriter::append(const char *type, const std::string &text) {
  const bool isMessage = type == std::string_view("message");
  if (!isOpen || item()["type"] != type) {
    open(type, isMessage ? Json{{"role", "assistant"}, {"content", Json::array()}}
                         : Json{{"summary", Json::array()}, {"content", Json::array()}});
    Json part = isMessage ? Json{{"type", "output_text"},
                                 {"text", ""},
                                 {"annotations", Json::array()},
                                 {"logprobs", Json::array()}}
                          : Json{{"type", "reasoning_text"}, {"text", ""}};
    item()["content"].push_back(part);
    addOfItem("response.content_part.added", {{"content_index", 0}, {"part", std::move(part)}});
  }
  item()["content"][0]["text"].get_ref<std::string &>() += text;
  Json delta = {{"content_index", 0}, {"delta", text}};
  if (isMessage)
    delta["logprobs"] = Json::array();
  addOfItem(isMessage ? "response.output_text.delta" : "response.reasoning_text.delta",
            std::move(delta));
}

void ResponseWriter::appendArguments(const std::string &text) {
  if (text.empty())
    return;
  item()["arguments"].get_ref<std::string &>() += text;
  addOfItem("response.function_call_arguments.delta", {{"delta", text}});
}

void ResponseWriter::close() {
  if (!std::exchange(isOpen, false))
    return;
  const bool isCall = item()["type"] == "function_call";
  const bool isCut =
      finishReason == "length" || (isCall && !Json::accept(textAt(item(), "arguments")));
  item()["status"] = isCut ? "incomplete" : "completed";
  if (isCall) {
    addOfItem("response.function_call_arguments.done",
              {{"name", item()["name"]}, {"arguments", item()["arguments"]}});
  } else {
    const bool isMessage = item()["type"] == "message";
    const Json &part = item()["content"][0];
    Json done = {{"content_index", 0}, {"text", part["text"]}};
    if (isMessage)
      done["logprobs"] = Json::array();
    addOfItem(isMessage ? "response.output_text.done" : "response.reasoning_text.done",
              std::move(done));
    addOfItem("response.content_part.done", {{"content_index", 0}, {"part", part}});
  }
  add("response.output_item.done",
      {{"output_index", response["output"].size() - 1}, {"item", item()}});
}

void ResponseWriter::take(const Json &message) {
  const Json calls = message.value("tool_calls", Json::array());
  // What the open call still gets was written before the message's other parts.
  for (const Json &call : calls)
    if (!call.contains("id") && isOpen && item()["type"] == "function_call")
      appendArguments(textAt(call["function"], "arguments"));
  if (const std::string text = textAt(message, "reasoning_content"); !text.empty())
    append("reasoning", text);
  if (const std::string text = textAt(message, "content"); !text.empty())
    append("message", text);
  for (const Json &call : calls) {
    if (!call.contains("id"))
      continue;
    const Json &function = call["function"];
    open("function_call", {{"call_id", call["id"]}, {"name", function["name"]}, {"arguments", ""}});
    appendArguments(textAt(function, "arguments"));
  }
}

void ResponseWriter::end(const Json &reason, const Json &usage) {
  finishReason = reason;
  close();
  const bool isCut = reason == "length";
  response["status"] = isCut ? "incomplete" : "completed";
  if (isCut)
    response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response["usage"] = {{"input_tokens", usage["prompt_tokens"]},
                       {"input_tokens_details", usage["prompt_tokens_details"]},
                       {"output_tokens", usage["completion_tokens"]},
                       {"output_tokens_details", usage["completion_tokens_details"]},
                       {"total_tokens", usage["total_tokens"]}};
}

Json ResponseWriter::whole(const Json &completion) {
  const Json &choice = completion["choices"][0];
  take(choice["message"]);
  end(choice["finish_reason"], completion["usage"]);
  return std::move(response);
}

std::string ResponseWriter::eventsOf(const Json &chunk) {
  if (eventCount == 0)
    for (const char *type : {"response.created", "response.in_progress"})
      add(type, {{"response", response}});
  if (chunk["choices"].empty()) {
    end(finishReason, chunk["usage"]);
    add(finishReason == "length" ? "response.incomplete" : "response.completed",
        {{"response", std::move(response)}}); // The last event.
  } else {
    const Json &choice = chunk["choices"][0];
    take(choice["delta"]);
    if (!choice["finish_reason"].is_null())
      finishReason = choice["finish_reason"];
  }
  return std::exchange(events, {});
}

std::string ResponseWriter::eventsOf(const ApiError &error) {
  response["status"] = "failed";
  response["error"] = {{"code", error.code.value_or("server_error")}, {"message", error.message}};
  add("response.failed", {{"response", response}});
  return std::exchange(events, {});
}

} // namespace moert::serve
