// A vocabulary as large as models have, and a schema that is costly to follow.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert::test {

/// Token 0 ends texts; the next ones are the printable characters, and then words, some of them
/// with JSON's characters, as a vocabulary of source code has.
inline std::vector<std::string> largeVocabulary(size_t tokens) {
  std::vector<std::string> texts = {""};
  for (char c = ' '; c <= '~'; ++c)
    texts.emplace_back(1, c);
  const std::string_view parts[] = {"a",  "in",  "th", "e",  " s",       "name", "\": \"", "\", \"",
                                    "12", "{\"", "[[", "]}", "\xC3\xA9", "\\n",  "    ",   "\n"};
  for (size_t i = 0; texts.size() < tokens; ++i) {
    std::string text;
    for (size_t rest = i; text.empty() || rest > 0; rest /= 16)
      text += parts[rest % 16];
    texts.push_back(std::move(text));
  }
  return texts;
}

/// Strings of several greatest lengths, which begin alike: a state has a few ways for each.
inline std::string manyStrings(int count) {
  std::string strings;
  for (int i = 0; i < count; ++i)
    strings += strCat(i > 0 ? "," : "", R"({"type": "string", "minLength": 50, "maxLength": )",
                      100 + i, "}");
  return "{\"anyOf\": [" + strings + "]}";
}

} // namespace moert::test
