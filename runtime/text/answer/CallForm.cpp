#include "runtime/text/answer/CallForm.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace moert {

using Json = nlohmann::ordered_json;

std::optional<std::string_view> jsonAtFront(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  text.remove_prefix(first);
  size_t depth = 0;
  bool isInString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (isInString) {
      i += c == '\\';
      isInString = c != '"';
    } else if (c == '"') {
      isInString = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0)
        return std::string_view();
      --depth;
    } else if (depth == 0) {
      // Numbers and names end before a delimiter; calls have objects, lists and strings here.
      return std::string_view();
    }
    if (!isInString && depth == 0) {
      const std::string_view value = text.substr(0, i + 1);
      return Json::accept(value) ? value : std::string_view();
    }
  }
  return text.empty() ? std::optional(text) : std::nullopt;
}

CallReading addCall(std::string_view name, std::string_view json, std::vector<ToolCall> &calls) {
  name = trimmed(name);
  json = trimmed(json);
  constexpr std::string_view kNotInNames = " \t\r\n<>{}\"'";
  if (name.empty() || name.find_first_of(kNotInNames) != std::string_view::npos)
    return CallReading::kNoCall;
  if (json.empty() || json == "null")
    json = "{}";
  const std::optional<std::string_view> value = jsonAtFront(json);
  if (!value)
    return CallReading::kIncomplete;
  if (*value != json || json.front() != '{')
    return CallReading::kNoCall;
  calls.push_back({std::string(name), std::string(json)});
  return CallReading::kCall;
}

void ArgumentList::add(std::string_view name, std::string_view json) {
  if (!members.empty())
    members += ", ";
  members += jsonString(name) + ": ";
  members += json;
}

bool take(std::string_view &text, std::string_view prefix) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::string_view rest = text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
  if (!rest.starts_with(prefix))
    return false;
  text = rest.substr(prefix.size());
  return true;
}

std::optional<std::string_view> takeUntil(std::string_view &text, std::string_view mark) {
  const size_t end = text.find(mark);
  if (end == std::string_view::npos)
    return std::nullopt;
  const std::string_view before = text.substr(0, end);
  text.remove_prefix(end + mark.size());
  return before;
}

} // namespace moert
