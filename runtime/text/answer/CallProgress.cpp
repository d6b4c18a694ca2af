#include "runtime/text/answer/CallProgress.h"

#include <algorithm>

namespace moert {

/// Each try reads the text from its beginning: bounds the work. Further calls come at the end.
static constexpr uint32_t kMostTries = 64;

CallProgress::CallProgress(const CallForm &callForm, const CallMarks &callMarks,
                           const ToolTypes &toolTypes)
    : form(callForm), marks(callMarks), types(toolTypes) {}

/// True where the text is calls with this completion, one at least with its beginning after the
/// known ones or with more arguments.
bool CallProgress::reads(std::string_view body, std::string_view completion) {
  std::vector<ToolCall> calls;
  if (form.read(std::string(body).append(completion), types, calls) != CallReading::kCall ||
      calls.size() < begun.size())
    return false;
  calls.back().arguments.pop_back(); // Its '}'.
  begun = std::move(calls);
  return true;
}

void CallProgress::advance(std::string_view body) {
  for (; next < body.size(); ++next) {
    const char c = body[next];
    if (depth > 0) {
      begun.back().arguments += c;
      if (isEscaped || c == '\\')
        isEscaped = !isEscaped && isInString;
      else if (c == '"')
        isInString = !isInString;
      else if (!isInString)
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      continue;
    }
    for (const CallWriting &writing : form.writings) {
      const bool isJson = writing.hasJsonArguments();
      const std::string_view mark = isJson ? "{" : writing.beforeKey;
      const std::string_view rest = body.substr(next);
      if (mark.empty() || writing.afterName.empty() || mark[0] != c || tries == kMostTries)
        continue;
      if (rest.size() < mark.size() && mark.starts_with(rest))
        return; // The mark may be incomplete.
      if (!rest.starts_with(mark))
        continue;
      ++tries;
      std::string completion(writing.afterArguments);
      completion += writing.end;
      if (!marks.close.empty())
        completion.resize(std::min(completion.find(marks.close), completion.size()));
      if (!reads(body.substr(0, next), (isJson ? "{}" : "") + completion) || !isJson)
        continue;
      begun.back().arguments = "{";
      depth = 1;
      break;
    }
  }
}

} // namespace moert
