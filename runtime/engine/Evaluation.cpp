#include "runtime/engine/Evaluation.h"

#include "runtime/engine/PairedBootstrap.h"

#include <algorithm>
#include <limits>

namespace moert {

void SampleScore::add(const RowScore &row) {
  ++tokens;
  lossNats += row.lossNats;
  referenceLossNats += row.referenceLossNats;
  klNats += row.klNats;
  agreeing += row.agrees;
}

void SampleScore::add(const SampleScore &other) {
  tokens += other.tokens;
  lossNats += other.lossNats;
  referenceLossNats += other.referenceLossNats;
  klNats += other.klNats;
  agreeing += other.agreeing;
}

Status checkEvaluation(const EvaluationOptions &options) {
  if (options.windowTokens < 2)
    return invalidInput("windows of ", options.windowTokens,
                        " tokens, expected at least 2: a window's first token is not scored");
  if (options.scoreFrom < 1 || options.scoreFrom >= options.windowTokens)
    return invalidInput("scoring from token ", options.scoreFrom, " of a window on, expected 1 to ",
                        options.windowTokens - 1, " in windows of ", options.windowTokens);
  return {};
}

uint64_t evaluationRowsBytes(const EvaluationOptions &options, uint32_t vocabularySize) {
  return uint64_t(options.stepTokens) * vocabularySize * sizeof(float);
}

namespace {

/// One window through both sources.
class WindowRun {
public:
  WindowRun(const EvaluationOptions &settings, LogitsSource &model, LogitsSource *referenceModel)
      : options(settings), artifact(model), reference(referenceModel) {
    if (reference)
      rows.resize(uint64_t(options.stepTokens) * reference->vocabularySize());
  }

  Result<SampleScore> run(std::span<const int32_t> window, const std::atomic<bool> *stop) {
    score = {};
    artifact.reset();
    if (reference)
      reference->reset();
    for (uint32_t begin = 0; begin < options.windowTokens; begin += options.stepTokens) {
      if (stop && stop->load(std::memory_order_relaxed))
        return Status(StatusCode::kInterrupted, "interrupted");
      uint32_t count = std::min(options.stepTokens, options.windowTokens - begin);
      MOERT_RETURN_IF_ERROR(step(window, begin, count));
    }
    return score;
  }

private:
  /// Logits after token i predict token i + 1; the window's last token predicts nothing.
  bool isScored(uint32_t index) const {
    return index + 1 >= options.scoreFrom && index + 1 < options.windowTokens;
  }

  Status step(std::span<const int32_t> window, uint32_t begin, uint32_t count) {
    auto tokens = window.subspan(begin, count);
    bool wanted = false;
    for (uint32_t i = 0; i < count; ++i)
      wanted = wanted || isScored(begin + i);
    if (!wanted) {
      if (reference)
        MOERT_RETURN_IF_ERROR(reference->append(tokens, {}).withContext("reference"));
      return artifact.append(tokens, {});
    }
    if (reference)
      MOERT_RETURN_IF_ERROR(
          reference
              ->append(tokens,
                       [&](uint32_t index, std::span<const float> logits) -> Status {
                         std::copy(logits.begin(), logits.end(), rowOf(index).begin());
                         return {};
                       })
              .withContext("reference"));
    return artifact.append(tokens, [&](uint32_t index, std::span<const float> logits) -> Status {
      if (!isScored(begin + index))
        return {};
      auto row = scoreRow(logits, reference ? rowOf(index) : std::span<float>{},
                          window[begin + index + 1]);
      if (!row.isOk())
        return row.status().withContext(strCat("after token ", begin + index, " of the window"));
      score.add(*row);
      return {};
    });
  }

  std::span<float> rowOf(uint32_t index) {
    uint64_t width = reference->vocabularySize();
    return std::span(rows).subspan(index * width, width);
  }

  const EvaluationOptions &options;
  LogitsSource &artifact;
  LogitsSource *reference;
  std::vector<float> rows; // The reference's of the current step.
  SampleScore score;
};

} // namespace

Result<std::vector<SampleScore>> evaluate(std::span<const std::vector<int32_t>> texts,
                                          const EvaluationOptions &options, LogitsSource &artifact,
                                          LogitsSource *reference,
                                          const EvaluationProgress &progress,
                                          const std::atomic<bool> *stop) {
  MOERT_RETURN_IF_ERROR(checkEvaluation(options));
  if (reference && reference->vocabularySize() != artifact.vocabularySize())
    return invalidInput("the reference has a vocabulary of ", reference->vocabularySize(),
                        " tokens, the artifact one of ", artifact.vocabularySize(),
                        "; expected the same");
  uint64_t total = 0;
  for (const std::vector<int32_t> &text : texts)
    total += windowCount(text.size(), options.windowTokens);

  std::vector<SampleScore> scores;
  scores.reserve(total);
  WindowRun run(options, artifact, reference);
  for (uint32_t text = 0; text < texts.size(); ++text) {
    uint64_t windows = windowCount(texts[text].size(), options.windowTokens);
    for (uint64_t window = 0; window < windows; ++window) {
      auto tokens = std::span(texts[text]).subspan(window * options.windowTokens);
      auto score = run.run(tokens.first(options.windowTokens), stop);
      if (!score.isOk())
        return score.status().withContext(strCat("window ", scores.size() + 1, " of ", total));
      score->text = text;
      scores.push_back(*score);
      if (progress)
        progress(scores.size(), total);
    }
  }
  return scores;
}

SampleScore sumOf(std::span<const SampleScore> samples, std::optional<uint32_t> text) {
  SampleScore sum;
  for (const SampleScore &sample : samples)
    if (!text || sample.text == *text)
      sum.add(sample);
  return sum;
}

std::string_view metricName(LossMetric metric) {
  switch (metric) {
  case LossMetric::kPerplexity:
    return "perplexity";
  case LossMetric::kKl:
    return "kl";
  case LossMetric::kTop1:
    return "top1";
  }
  return "";
}

std::optional<LossMetric> parseMetric(std::string_view name) {
  for (LossMetric metric : {LossMetric::kPerplexity, LossMetric::kKl, LossMetric::kTop1})
    if (metricName(metric) == name)
      return metric;
  return std::nullopt;
}

std::optional<double> valueOf(const SampleScore &score, LossMetric metric) {
  if (score.tokens == 0)
    return std::nullopt;
  switch (metric) {
  case LossMetric::kPerplexity:
    return score.perplexity();
  case LossMetric::kKl:
    return score.kl();
  case LossMetric::kTop1:
    return score.agreement();
  }
  return std::nullopt;
}

std::optional<double> referenceValueOf(const SampleScore &score, LossMetric metric) {
  if (score.tokens == 0)
    return std::nullopt;
  switch (metric) {
  case LossMetric::kPerplexity:
    return score.referencePerplexity();
  case LossMetric::kKl:
    return 0;
  case LossMetric::kTop1:
    return 1;
  }
  return std::nullopt;
}

std::optional<double> lossOf(const SampleScore &score, LossMetric metric) {
  if (score.tokens == 0)
    return std::nullopt;
  switch (metric) {
  case LossMetric::kPerplexity:
    return exp64((score.lossNats - score.referenceLossNats) / static_cast<double>(score.tokens)) -
           1;
  case LossMetric::kKl:
    return score.kl();
  case LossMetric::kTop1:
    return 1 - score.agreement();
  }
  return std::nullopt;
}

std::optional<double> lossUpperBound95(std::span<const SampleScore> samples, LossMetric metric,
                                       uint32_t looks) {
  std::vector<uint32_t> texts;
  texts.reserve(samples.size());
  for (const SampleScore &sample : samples)
    texts.push_back(sample.text);
  return upperBound95(
      texts,
      [&](std::span<const uint32_t> drawn) {
        SampleScore sum;
        for (uint32_t sample : drawn)
          sum.add(samples[sample]);
        return lossOf(sum, metric).value_or(std::numeric_limits<double>::infinity());
      },
      looks);
}

} // namespace moert
