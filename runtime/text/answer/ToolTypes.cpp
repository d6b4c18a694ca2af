#include "runtime/text/answer/ToolTypes.h"

#include <array>
#include <nlohmann/json.hpp>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {

/// Bits of a set of types; 0: any.
enum : uint8_t { kString = 1, kNumber = 2, kBoolean = 4, kNull = 8, kObject = 16, kArray = 32 };

uint8_t bitOf(const Json &value) {
  if (value.is_string())
    return kString;
  if (value.is_number())
    return kNumber;
  if (value.is_boolean())
    return kBoolean;
  if (value.is_null())
    return kNull;
  return value.is_object() ? kObject : kArray;
}

uint8_t bitOfName(const Json &name) {
  constexpr std::array<std::pair<const char *, uint8_t>, 7> kNames = {{{"string", kString},
                                                                       {"integer", kNumber},
                                                                       {"number", kNumber},
                                                                       {"boolean", kBoolean},
                                                                       {"null", kNull},
                                                                       {"object", kObject},
                                                                       {"array", kArray}}};
  for (const auto &[known, bit] : kNames)
    if (name == known)
      return bit;
  return 0;
}

/// Alternatives are followed one level deep: deeper ones count as any type.
uint8_t typesOf(const Json &schema, bool isAlternative = false) {
  if (!schema.is_object())
    return 0;
  uint8_t bits = 0;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (!type->is_array())
      return bitOfName(*type);
    for (const Json &one : *type)
      bits |= bitOfName(one);
    return bits;
  }
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    for (const Json &value : *values)
      bits |= bitOf(value);
    return bits;
  }
  for (const char *name : {"anyOf", "oneOf"})
    if (const auto list = schema.find(name);
        !isAlternative && list != schema.end() && list->is_array())
      for (const Json &one : *list) {
        const uint8_t other = typesOf(one, true);
        if (other == 0)
          return 0;
        bits |= other;
      }
  return bits;
}

} // namespace

ToolTypes::ToolTypes(const Json &tools) {
  for (const Json &tool : tools) {
    if (!tool.is_object() || !tool.contains("function"))
      continue;
    const Json &function = tool["function"];
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string())
      continue;
    const Json properties = function.value("/parameters/properties"_json_pointer, Json::object());
    auto &parameters = types[function["name"].get<std::string>()];
    if (properties.is_object())
      for (const auto &member : properties.items())
        parameters[member.key()] = typesOf(member.value());
  }
}

std::string ToolTypes::valueOf(std::string_view tool, std::string_view parameter,
                               std::string_view text) const {
  uint8_t allowed = 0;
  if (const auto known = types.find(tool); known != types.end())
    if (const auto type = known->second.find(parameter); type != known->second.end())
      allowed = type->second;
  if (allowed == kString)
    return jsonString(text);
  std::string_view value = trimmed(text);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPython = {
      {{"True", "true"}, {"False", "false"}, {"None", "null"}}};
  for (const auto &[python, json] : kPython)
    if (value == python && allowed != 0)
      value = json;
  const Json parsed = Json::parse(value, nullptr, false);
  // A string in quotes is one that the text has as its content.
  const uint8_t others = allowed == 0 ? ~kString : allowed & ~kString;
  return !parsed.is_discarded() && (bitOf(parsed) & others) != 0 ? std::string(value)
                                                                 : jsonString(text);
}

std::string jsonString(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string_view trimmed(std::string_view text, std::string_view space) {
  const size_t first = text.find_first_not_of(space);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(space) + 1 - first);
}

} // namespace moert
