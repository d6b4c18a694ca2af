#include "runtime/evaluation/AnswerEvaluation.h"

#include "runtime/evaluation/AnswerScore.h"
#include "runtime/text/answer/GeneratedText.h"
#include "runtime/text/sampling/Sampler.h"

#include <algorithm>

namespace moert {

uint64_t EncodedAnswer::longestTokens(uint32_t maxTokens) const {
  return std::max<uint64_t>(prompt.size() + maxTokens, withAnswer.size());
}

Result<EncodedAnswer> encodeAnswer(AnswerItem item, const Tokenizer &tokenizer) {
  EncodedAnswer encoded;
  encoded.line = item.line;
  MOERT_ASSIGN_OR_RETURN(encoded.prompt, tokenizer.encode(item.prompt, true));
  if (encoded.prompt.empty())
    return invalidInput("a prompt without any token, expected at least one");
  MOERT_ASSIGN_OR_RETURN(encoded.withAnswer,
                         tokenizer.encode(strCat(item.prompt, item.answers.front()), true));
  encoded.answers = std::move(item.answers);
  return encoded;
}

Status continueGreedily(LogitsSource &source, std::span<const int32_t> prompt,
                        const AnswerOptions &options,
                        const std::function<bool(int32_t token)> &takeToken,
                        const std::atomic<bool> *stop) {
  int32_t token = prompt.back();
  const LogitsSource::TakeRow takeRow = [&token](uint32_t,
                                                 std::span<const float> logits) -> Status {
    MOERT_ASSIGN_OR_RETURN(token, greedyToken(logits));
    return {};
  };
  source.reset();
  if (prompt.size() > 1)
    MOERT_RETURN_IF_ERROR(source.append(prompt.first(prompt.size() - 1), {}));
  for (uint32_t count = 0; count < options.maxTokens; ++count) {
    if (stop && stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    const int32_t last = token;
    MOERT_RETURN_IF_ERROR(source.append(std::span(&last, 1), takeRow));
    const bool isEnd = std::find(options.endTokens.begin(), options.endTokens.end(), token) !=
                       options.endTokens.end();
    if (isEnd || !takeToken(token))
      return {};
  }
  return {};
}

namespace {

/// The text with which a model continues a prompt.
Result<std::string> generate(LogitsSource &source, const EncodedAnswer &item,
                             const AnswerOptions &options, const Tokenizer &tokenizer,
                             const std::atomic<bool> *stop) {
  MOERT_ASSIGN_OR_RETURN(StopText stops, StopText::create(options.stopTexts));
  GeneratedText generated(tokenizer, std::move(stops));
  std::string text;
  MOERT_RETURN_IF_ERROR(continueGreedily(
      source, item.prompt, options, [&](int32_t token) { return !generated.take(token, text); },
      stop));
  generated.finish(text);
  return text;
}

double pointsOf(const std::string &text, const EncodedAnswer &item, LossMetric metric,
                const AnswerOptions &options) {
  return metric == LossMetric::kRouge2 ? rouge2(text, item.answers)
                                       : isExactMatch(text, item.answers, options.answerAfter);
}

} // namespace

Result<SampleScore> evaluateAnswer(const EncodedAnswer &item, const AnswerRun &run,
                                   PairedPass &pass) {
  const auto &[metric, options, tokenizer, artifact, reference, stop] = run;
  SampleScore score;
  // Without a reference only the points are needed.
  if (reference) {
    MOERT_RETURN_IF_ERROR(pass.beginUnit());
    MOERT_ASSIGN_OR_RETURN(score, scoreTokens(pass, item.withAnswer, 1));
    MOERT_ASSIGN_OR_RETURN(std::string text, generate(*reference, item, options, tokenizer, stop));
    score.referencePoints = pointsOf(text, item, metric, options);
  }
  MOERT_RETURN_IF_ERROR(pass.beginUnit()); // The same points with a reference and without.
  MOERT_ASSIGN_OR_RETURN(std::string text, generate(artifact, item, options, tokenizer, stop));
  score.points = pointsOf(text, item, metric, options);
  score.text = item.text;
  score.unit = item.line;
  score.items = 1;
  return score;
}

} // namespace moert
