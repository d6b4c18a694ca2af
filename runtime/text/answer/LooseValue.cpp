#include "runtime/text/answer/LooseValue.h"

#include "runtime/base/Utf8.h"
#include "runtime/text/answer/CallForm.h"

#include <nlohmann/json.hpp>

namespace moert {

/// The rest of a string after its quote, which has Python's escapes if it is one character.
static std::optional<std::string> takeString(std::string_view &text, std::string_view quote) {
  std::string content;
  while (!text.empty()) {
    if (text.starts_with(quote)) {
      text.remove_prefix(quote.size());
      return jsonString(content);
    }
    char next = text.front();
    text.remove_prefix(1);
    if (next == '\\' && quote.size() == 1 && !text.empty()) {
      const char escaped = text.front();
      text.remove_prefix(1);
      next = escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'r' ? '\r' : escaped;
    }
    content += next;
  }
  return std::nullopt;
}

std::string_view takeName(std::string_view &text) {
  take(text, "");
  size_t size = 0;
  const auto isInName = [](char c) {
    return isAsciiLetter(c) || isAsciiDigit(c) || c == '_' || c == '-' || c == '.' || c == '+';
  };
  while (size < text.size() && isInName(text[size]))
    ++size;
  const std::string_view name = text.substr(0, size);
  text.remove_prefix(size);
  return name;
}

/// Members up to the closing bracket; `close` is '}' or ']'.
static std::optional<std::string> takeMembers(std::string_view &text, std::string_view close,
                                              std::string_view quote, uint32_t levels) {
  const bool isObject = close == "}";
  std::string json = isObject ? "{" : "[";
  while (!take(text, close)) {
    if (json.size() > 1) {
      if (!take(text, ","))
        return std::nullopt;
      if (take(text, close))
        break;
      json += ", ";
    }
    if (isObject) {
      const std::string_view name = takeName(text);
      const std::optional<std::string> key =
          name.empty() ? takeLooseValue(text, quote, 1) : jsonString(name);
      if (!key || !key->starts_with('"') || !take(text, ":"))
        return std::nullopt;
      json += *key + ": ";
    }
    const std::optional<std::string> value = takeLooseValue(text, quote, levels);
    if (!value)
      return std::nullopt;
    json += *value;
  }
  return json.append(close);
}

std::optional<std::string> takeLooseValue(std::string_view &text, std::string_view quote,
                                          uint32_t levels) {
  if (levels == 0)
    return std::nullopt;
  // JSON's strings have escapes that Python's do not, and the other way around.
  take(text, "");
  if (text.starts_with('"'))
    if (const auto string = jsonAtFront(text); string && !string->empty()) {
      take(text, *string);
      return std::string(*string);
    }
  for (const std::string_view each : {quote, std::string_view("\""), std::string_view("'")})
    if (!each.empty() && take(text, each))
      return takeString(text, each);
  if (take(text, "{"))
    return takeMembers(text, "}", quote, levels - 1);
  if (take(text, "["))
    return takeMembers(text, "]", quote, levels - 1);
  const std::string_view name = takeName(text);
  if (name == "True" || name == "False")
    return name == "True" ? "true" : "false";
  if (name == "None")
    return "null";
  return nlohmann::ordered_json::accept(name) ? std::optional(std::string(name)) : std::nullopt;
}

} // namespace moert
