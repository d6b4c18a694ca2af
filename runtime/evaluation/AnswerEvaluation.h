// Generated text: each model continues the prompts greedily, and its text is compared with the
// items' answers (AnswerScore.h) - with ROUGE-2 or as an exact match.
//
// A text ends after maxTokens tokens, with one of the model's end tokens, or before a stop text. KL
// and agreement are not measured on generated text, where two models soon read different texts, but
// on the prompt followed by the item's first answer: every token except the first.
#pragma once

#include "runtime/evaluation/Evaluation.h"
#include "runtime/evaluation/ItemFile.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <string>

namespace moert {

struct AnswerOptions {
  uint32_t maxTokens = 128; // At least 1.
  std::vector<std::string> stopTexts = {};
  std::string answerAfter = {};        // For exact match; AnswerScore.h.
  std::vector<int32_t> endTokens = {}; // The model's.
};

/// An answer item as the models see it.
struct EncodedAnswer {
  uint32_t text = 0; // Its file, and its line there.
  uint32_t line = 0;
  std::vector<int32_t> prompt;     // At least one token.
  std::vector<int32_t> withAnswer; // Prompt and first answer.
  std::vector<std::string> answers;

  uint64_t longestTokens(uint32_t maxTokens) const;
};

/// Fails where the tokenizer fails.
Result<EncodedAnswer> encodeAnswer(AnswerItem item, const Tokenizer &tokenizer);

/// Continues a prompt, always with the most likely token, and passes each token to takeToken. Ends
/// after maxTokens, at an end token (which is not passed on), or when takeToken returns false.
Status continueGreedily(LogitsSource &source, std::span<const int32_t> prompt,
                        const AnswerOptions &options,
                        const std::function<bool(int32_t token)> &takeToken,
                        const std::atomic<bool> *stop);

/// The inputs of scoring answers besides the items; metric is kRouge2 or kExact. Borrows.
struct AnswerRun {
  LossMetric metric;
  const AnswerOptions &options;
  const Tokenizer &tokenizer;
  LogitsSource &artifact;
  LogitsSource *reference; // May be absent.
  const std::atomic<bool> *stop = nullptr;
};

/// The score of one item; `pass` uses the run's sources.
Result<SampleScore> evaluateAnswer(const EncodedAnswer &item, const AnswerRun &run,
                                   PairedPass &pass);

} // namespace moert
