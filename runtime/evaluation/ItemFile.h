// The items of an evaluation: JSONL, one JSON object per line. Blank lines and keys that are not
// named here are ignored.
//
// Multiple choice (--metric choice), the form in which MMLU is distributed:
//
//   {"question": "2 + 2 is", "choices": ["3", "4"], "answer": 1, "subject": "arithmetic"}
//
//   question   a text
//   choices    2 to 26 texts
//   answer     index of the right one, counted from 0
//   subject    a text; may be absent
//
// Texts to generate (--metric rouge2, exact):
//
//   {"prompt": "Summarize: ...", "answer": "In one sentence."}
//
//   prompt     the text that the model continues, unchanged: white space at its end counts
//   answer     a text, or a list of texts of which each is right
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

struct ChoiceItem {
  uint32_t line = 0; // Counted from 1.
  std::string subject, question;
  std::vector<std::string> choices;
  uint32_t answer = 0; // Index of the right one.
};

struct AnswerItem {
  uint32_t line = 0; // Counted from 1.
  std::string prompt;
  std::vector<std::string> answers; // At least one.
};

constexpr uint32_t kMaxChoices = 26;

/// Refuses, naming the file and the line, lines that are not such items, and a file without items.
/// `name` is the file's name in messages.
Result<std::vector<ChoiceItem>> parseChoiceItems(std::string_view text, std::string_view name);
Result<std::vector<AnswerItem>> parseAnswerItems(std::string_view text, std::string_view name);

} // namespace moert
