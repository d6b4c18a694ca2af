// Generated text: each model continues the prompts, always with the most likely token, and its text
// is scored beside the items' answers (AnswerScore.h) - with ROUGE-2 or as an exact match.
//
// A text ends with maxTokens tokens, with a token that ends the model's texts, or in front of a
// stop text. KL and agreement are not of what was generated, where two models soon read different
// texts, but over every token of the prompt with the item's first answer behind it but the first.
#pragma once

#include "runtime/evaluation/Evaluation.h"
#include "runtime/evaluation/ItemFile.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <string>

namespace moert {

struct AnswerOptions {
  uint32_t maxTokens = 128; // At least 1.
  std::vector<std::string> stopTexts = {};
  std::string answerAfter = {};        // Of exact match; AnswerScore.h.
  std::vector<int32_t> endTokens = {}; // The model's.
};

/// An answer item as the models see it.
struct EncodedAnswer {
  uint32_t text = 0; // The file that it is from, and the line there.
  uint32_t line = 0;
  std::vector<int32_t> prompt;     // At least one token.
  std::vector<int32_t> withAnswer; // Prompt and first answer.
  std::vector<std::string> answers;

  uint64_t longestTokens(uint32_t maxTokens) const;
};

/// Fails where the tokenizer fails.
Result<EncodedAnswer> encodeAnswer(AnswerItem item, const Tokenizer &tokenizer);

/// Hands out the tokens that continue a prompt, the most likely each time, until maxTokens were, an
/// end token comes, which is not handed out, or takeToken says false.
Status continueGreedily(LogitsSource &source, std::span<const int32_t> prompt,
                        const AnswerOptions &options,
                        const std::function<bool(int32_t token)> &takeToken,
                        const std::atomic<bool> *stop);

/// What scoring answers takes beside the items; metric is kRouge2 or kExact. Borrows.
struct AnswerRun {
  LossMetric metric;
  const AnswerOptions &options;
  const Tokenizer &tokenizer;
  LogitsSource &artifact;
  LogitsSource *reference; // May be absent.
  const std::atomic<bool> *stop = nullptr;
};

/// The score of one item; the pass is of the run's sources.
Result<SampleScore> evaluateAnswer(const EncodedAnswer &item, const AnswerRun &run,
                                   PairedPass &pass);

/// A score per item; metric is kRouge2 or kExact.
Result<std::vector<SampleScore>> evaluateAnswers(std::span<const EncodedAnswer> items,
                                                 LossMetric metric, const AnswerOptions &options,
                                                 const Tokenizer &tokenizer, uint32_t stepTokens,
                                                 LogitsSource &artifact, LogitsSource *reference,
                                                 const EvaluationProgress &progress = {},
                                                 const std::atomic<bool> *stop = nullptr);

} // namespace moert
