#include "runtime/text/chat/ChatTemplate.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/chat/Evaluator.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

namespace moert {

namespace chat {

namespace {

// The variables of a rendering, from JSON ---------------------------------------------------------

using Json = nlohmann::ordered_json;

Result<Value> readValue(const Json &json, uint32_t level);

Result<Dict> readObject(const Json &json, uint32_t level) {
  Dict dict;
  for (const auto &[name, member] : json.get_ref<const Json::object_t &>()) {
    MOERT_ASSIGN_OR_RETURN(Value key, readValue(name, level));
    MOERT_ASSIGN_OR_RETURN(Value value, readValue(member, level + 1));
    dict.depth = std::max(dict.depth, value.depth() + 1);
    dict.set(textKey(name), std::move(key), std::move(value));
  }
  return dict;
}

Result<Value> readArray(const Json &json, uint32_t level) {
  auto sequence = std::make_shared<Sequence>();
  for (const Json &element : json) {
    MOERT_ASSIGN_OR_RETURN(Value value, readValue(element, level + 1));
    sequence->depth = std::max(sequence->depth, value.depth() + 1);
    sequence->items.push_back(std::move(value));
  }
  return Value(SequencePtr(std::move(sequence)));
}

Result<Value> readValue(const Json &json, uint32_t level) {
  if (level > kMaxValueDepth)
    return invalidInput("lists and objects are nested deeper than ", kMaxValueDepth, " levels");
  switch (json.type()) {
  case Json::value_t::null:
    return Value();
  case Json::value_t::boolean:
    return Value(json.get<bool>());
  case Json::value_t::number_integer:
    return Value(json.get<int64_t>());
  case Json::value_t::number_unsigned:
    if (json.get<uint64_t>() > uint64_t(INT64_MAX))
      return integerOverflow();
    return Value(json.get<int64_t>());
  case Json::value_t::number_float:
    return Value(json.get<double>());
  case Json::value_t::string:
    if (!isValidUtf8(json.get_ref<const std::string &>()))
      return invalidInput("found a text that is not valid UTF-8");
    return Value::ofText(json.get<std::string>());
  case Json::value_t::array:
    return readArray(json, level);
  case Json::value_t::object: {
    MOERT_ASSIGN_OR_RETURN(Dict dict, readObject(json, level));
    return Value(std::make_shared<const Dict>(std::move(dict)));
  }
  default:
    return invalidInput("found a ", json.type_name(), " value, expected JSON");
  }
}

/// The members of an object. Refuses broken UTF-8, integers of more than 64 bits, and lists in
/// lists deeper than kMaxValueDepth.
Result<Dict> readContext(const Json &json) {
  if (!json.is_object())
    return invalidInput("found a ", json.type_name(), ", expected an object");
  return readObject(json, 1);
}

} // namespace

} // namespace chat

struct ChatTemplate::Parsed {
  std::string name;
  chat::Body body;
};

std::tm systemLocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return local;
}

Result<ChatTemplate> ChatTemplate::compile(std::string source, std::string name) {
  if (source.size() > kMaxTemplateBytes)
    return invalidInput(name, ": found a template of ", source.size(), " bytes, expected at most ",
                        kMaxTemplateBytes);
  if (!isValidUtf8(source))
    return invalidInput(name, ": the template is not valid UTF-8");
  Result<chat::Body> body = chat::parseTemplate(source);
  if (!body.isOk())
    return body.status().withContext(name);
  return ChatTemplate(
      std::make_shared<const Parsed>(Parsed{std::move(name), std::move(body).value()}));
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json &context,
                                         const TemplateLimits &limits, LocalClock clock) const {
  Result<chat::Dict> variables = chat::readContext(context);
  if (!variables.isOk())
    return variables.status().withContext(parsed->name + ": the variables");
  chat::Evaluator evaluator(variables.value(), limits, clock);
  Result<std::string> text = evaluator.run(parsed->body);
  if (!text.isOk())
    return text.status().withContext(strCat(parsed->name, ": line ", evaluator.errorLine()));
  return text;
}

} // namespace moert
