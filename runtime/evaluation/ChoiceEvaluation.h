// Multiple choice: the artifact's answer is the choice that it finds most likely.
//
// The prompt is that of MMLU in EleutherAI's lm-evaluation-harness without examples. By letter (the
// harness's mmlu), the letters behind the prompt are compared:
//
//   The following are multiple choice questions (with answers) about abstract algebra.
//
//   Find the characteristic of the ring 2Z.
//   A. 0
//   B. 3
//   Answer:
//
// its first two lines only where the item names a subject ('_' is read as a space). By text (its
// mmlu_continuation), the choices' own texts behind "Question: ...\nAnswer:", which a model needs
// no knowledge of tests for.
//
// What is scored is " " and the letter or text: the sum of the log-probabilities of its tokens,
// which are those of prompt and choice tokenized together from the first token on that differs from
// the prompt's. The lowest index among the most likely is the answer: 1 point if it is the right
// one.
//
// KL and agreement are over every token but the first of the prompt and the right choice behind it.
#pragma once

#include "runtime/evaluation/Evaluation.h"
#include "runtime/evaluation/ItemFile.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <string>

namespace moert {

enum class ChoiceBy { kLetter, kText };

/// A choice item as the models see it.
struct EncodedChoice {
  uint32_t text = 0; // The file that it is from, and the line there.
  uint32_t line = 0;
  std::vector<int32_t> question;             // At least one token.
  std::vector<std::vector<int32_t>> choices; // What stands behind it; at least one token each.
  uint32_t answer = 0;

  uint64_t longestTokens() const;
};

/// What the model reads before the choice, without the space in front of it.
std::string choicePrompt(const ChoiceItem &item, ChoiceBy by);

/// Fails where the tokenizer fails.
Result<EncodedChoice> encodeChoice(const ChoiceItem &item, ChoiceBy by, const Tokenizer &tokenizer);

/// The score of one item.
Result<SampleScore> evaluateChoice(const EncodedChoice &item, PairedPass &pass);

/// A score per item. Choices of one token each, as letters are, cost one pass per item, others one
/// per choice.
Result<std::vector<SampleScore>> evaluateChoices(std::span<const EncodedChoice> items,
                                                 uint32_t stepTokens, LogitsSource &artifact,
                                                 LogitsSource *reference,
                                                 const EvaluationProgress &progress = {},
                                                 const std::atomic<bool> *stop = nullptr);

} // namespace moert
