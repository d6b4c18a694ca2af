#include "runtime/chat/JsonContext.h"

#include "runtime/base/Utf8.h"
#include "runtime/chat/Allowance.h"
#include "runtime/chat/Arithmetic.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace moert::chat {

namespace {

using Json = nlohmann::ordered_json;

Result<Value> readValue(const Json &json, uint32_t level);

Result<Value> readText(const std::string &text) {
  if (!isValidUtf8(text))
    return invalidInput("found a text that is not valid UTF-8");
  return Value::ofText(text);
}

Result<Dict> readObject(const Json &json, uint32_t level) {
  Dict dict;
  for (const auto &[name, member] : json.get_ref<const Json::object_t &>()) {
    MOERT_ASSIGN_OR_RETURN(Value key, readText(name));
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
    return readText(json.get_ref<const std::string &>());
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

} // namespace

Result<Dict> readContext(const nlohmann::ordered_json &json) {
  if (!json.is_object())
    return invalidInput("found a ", json.type_name(), ", expected an object");
  return readObject(json, 1);
}

} // namespace moert::chat
