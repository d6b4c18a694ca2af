#include "tools/moert-serve/ToolCallText.h"

#include "tools/moert-serve/Fields.h"

#include <algorithm>

namespace moert::serve {

std::string ToolCallText::feed(std::string_view text) {
  held += text;
  size_t shown = held.find(kBegin);
  // The longest end that a marker may begin with is held back.
  for (size_t at = held.size() - std::min(held.size(), kBegin.size()); shown == std::string::npos;
       ++at)
    if (kBegin.starts_with(std::string_view(held).substr(at)))
      shown = at;
  std::string result = held.substr(0, shown);
  held.erase(0, shown);
  return result;
}

bool ToolCallText::readCalls() {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string_view rest = held;
  while (rest.starts_with(kBegin)) {
    rest.remove_prefix(kBegin.size());
    const size_t end = std::min(rest.find(kEnd), rest.size());
    Json call;
    // The limits are those of a client's JSON: a model's is trusted no more.
    if (parseBody(rest.substr(0, end), JsonLimits(), call) || !call.contains("name") ||
        !call["name"].is_string() || !call.contains("arguments"))
      return false;
    const Json &arguments = call["arguments"];
    found.push_back({call["name"].get<std::string>(),
                     arguments.is_string() ? arguments.get<std::string>() : textOf(arguments)});
    rest.remove_prefix(std::min(rest.size(), end + kEnd.size()));
    rest.remove_prefix(std::min(rest.find_first_not_of(kSpace), rest.size()));
  }
  return rest.empty();
}

std::string ToolCallText::finish() {
  const bool isCall = held.starts_with(kBegin) && readCalls();
  if (!isCall)
    found.clear();
  std::string rest = isCall ? std::string() : std::move(held);
  held.clear();
  return rest;
}

} // namespace moert::serve
