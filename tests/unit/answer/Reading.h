// What an answer becomes, read in pieces of a given size.
#pragma once

#include "runtime/text/answer/AnswerReader.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace moert {

using Json = nlohmann::ordered_json;

/// The tools of these tests: get_weather(city: string, days: integer, hours: list) and now().
inline const ToolTypes &weatherTypes() {
  static const ToolTypes types(Json::parse(R"([
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
     "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
                    "hours": {"type": "array"}}}}},
    {"type": "function", "function": {"name": "now"}}])"));
  return types;
}

struct Reading {
  std::string content, reasoning, raw, markup;
  std::vector<std::pair<std::string, Json>> calls;

  bool operator==(const Reading &) const = default;
};

inline Reading readAnswer(std::string_view answer, size_t pieceBytes, const AnswerFormat &format,
                          const CallForm *calls = nullptr, std::string_view prompt = "") {
  AnswerReader reader(format, prompt, calls, &weatherTypes());
  Reading result;
  const AnswerReader::Emit emit = [&](AnswerPart part, std::string_view text,
                                      const ToolCall *call) {
    result.raw += text;
    if (part == AnswerPart::kAnswer)
      result.content += text;
    if (part == AnswerPart::kReasoning)
      result.reasoning += text;
    if (part == AnswerPart::kMarkup)
      result.markup += text;
    if (part == AnswerPart::kCall)
      result.calls.emplace_back(call->name, Json::parse(call->arguments));
  };
  for (size_t at = 0; at < answer.size(); at += pieceBytes)
    reader.feed(answer.substr(at, pieceBytes), emit);
  reader.finish(emit);
  return result;
}

/// The same whole and byte by byte; every byte is in one piece.
inline Reading readBothWays(std::string_view answer, const AnswerFormat &format,
                            const CallForm *calls = nullptr, std::string_view prompt = "") {
  const Reading whole =
      readAnswer(answer, std::max<size_t>(answer.size(), 1), format, calls, prompt);
  CHECK(whole == readAnswer(answer, 1, format, calls, prompt));
  CHECK(whole.raw == answer);
  return whole;
}

} // namespace moert
