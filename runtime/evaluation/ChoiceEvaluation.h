// Multiple choice: the artifact's answer is the choice that it finds most likely.
//
// The prompt is that of MMLU in EleutherAI's lm-evaluation-harness without examples. By letter (the
// harness's mmlu), the letters after the prompt are compared:
//
//   The following are multiple choice questions (with answers) about abstract algebra.
//
//   Find the characteristic of the ring 2Z.
//   A. 0
//   B. 3
//   Answer:
//
// The first two lines are present only if the item names a subject ('_' is read as a space). By
// text (its mmlu_continuation), the choices' own texts after "Question: ...\nAnswer:" are compared,
// which also works for models that do not know the format of such tests.
//
// A choice's score is the log-probability of " " and the letter or text, summed over its tokens:
// prompt and choice are tokenized together, and the choice begins with the first token that differs
// from the prompt's. The most likely choice is the answer, the lowest index on ties: 1 point if it
// is right.
//
// KL and agreement are over every token except the first of the prompt followed by the right
// choice.
#pragma once

#include "runtime/evaluation/Evaluation.h"
#include "runtime/evaluation/ItemFile.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <string>

namespace moert {

enum class ChoiceBy { kLetter, kText };

/// A choice item as the models see it.
struct EncodedChoice {
  uint32_t text = 0; // Its file, and its line there.
  uint32_t line = 0;
  std::vector<int32_t> question;             // At least one token.
  std::vector<std::vector<int32_t>> choices; // Follow the question; at least one token each.
  uint32_t answer = 0;

  uint64_t longestTokens() const;
};

/// The prompt before the choice, without the space between them.
std::string choicePrompt(const ChoiceItem &item, ChoiceBy by);

/// Fails where the tokenizer fails.
Result<EncodedChoice> encodeChoice(const ChoiceItem &item, ChoiceBy by, const Tokenizer &tokenizer);

/// The score of one item. Choices of one token each, as letters are, cost one pass, others one per
/// choice.
Result<SampleScore> evaluateChoice(const EncodedChoice &item, PairedPass &pass);

} // namespace moert
