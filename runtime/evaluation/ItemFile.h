// The items of an evaluation: JSONL, one JSON object a line, lines of nothing but white space left
// out. Keys that are not named here are left alone.
//
// Multiple choice (--metric choice), the form in which MMLU is passed on:
//
//   {"question": "2 + 2 is", "choices": ["3", "4"], "answer": 1, "subject": "arithmetic"}
//
//   question   a text
//   choices    2 to 26 texts
//   answer     which of them is right, counted from 0
//   subject    a text; may be absent
//
// Texts to generate (--metric rouge2, exact):
//
//   {"prompt": "Summarize: ...", "answer": "In one sentence."}
//
//   prompt     what the model continues, as it is: a line break or a space at its end counts
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

/// Refuses, naming the file and the line, what is not such a list, and a file without any item.
/// `name` is the file's, as messages have it.
Result<std::vector<ChoiceItem>> parseChoiceItems(std::string_view text, std::string_view name);
Result<std::vector<AnswerItem>> parseAnswerItems(std::string_view text, std::string_view name);

} // namespace moert
