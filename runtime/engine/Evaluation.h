// Measures an artifact on texts, alone or beside a reference.
//
// Perplexity: each text is cut into windows without overlap, a rest shorter than a window is left
// out; in each window every token from index `scoreFrom` on (1: all but the first) is scored with
// its predecessors in the window; exp of the mean loss over all scored tokens. KL is the mean of
// KL(reference || artifact), in nats per token; agreement the share of tokens for which both have
// the same most likely next token.
//
// Sums are doubles added token after token inside a window, and window after window: the same
// logits give the same numbers on every machine.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/engine/RowScore.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace moert {

/// Something that gives logits: a loaded model with one session. Borrowed by evaluate().
class LogitsSource {
public:
  /// Takes the logits [vocabulary] after the index-th of the appended tokens; valid in the call.
  using TakeRow = std::function<Status(uint32_t index, std::span<const float> logits)>;

  virtual ~LogitsSource() = default;
  virtual uint32_t vocabularySize() const = 0;
  /// Back to an empty sequence.
  virtual void reset() = 0;
  /// Appends tokens, at most as many as evaluate() was told to take at a time, and gives the logits
  /// after each of them in order; without takeRow none are computed.
  virtual Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) = 0;
};

struct EvaluationOptions {
  uint32_t windowTokens = 512;
  uint32_t scoreFrom = 1;  // Below windowTokens, at least 1.
  uint32_t stepTokens = 1; // Appended at a time: as many rows of the reference are held.
};

/// The scores of one sample (a window), or the sum over several. Samples are what is resampled.
struct SampleScore {
  uint32_t text = 0;
  uint64_t tokens = 0;
  double lossNats = 0, referenceLossNats = 0, klNats = 0;
  uint64_t agreeing = 0;

  void add(const RowScore &row);
  void add(const SampleScore &other);

  double perplexity() const { return exp64(lossNats / static_cast<double>(tokens)); }
  double referencePerplexity() const {
    return exp64(referenceLossNats / static_cast<double>(tokens));
  }
  double kl() const { return klNats / static_cast<double>(tokens); }
  double agreement() const { return static_cast<double>(agreeing) / static_cast<double>(tokens); }
};

/// Windows that a text of so many tokens has.
constexpr uint64_t windowCount(uint64_t tokens, uint32_t windowTokens) {
  return tokens / windowTokens;
}

/// Refuses windows of fewer than 2 tokens and a first scored token outside of them.
Status checkEvaluation(const EvaluationOptions &options);

/// Bytes that evaluate() holds for rows of the reference.
uint64_t evaluationRowsBytes(const EvaluationOptions &options, uint32_t vocabularySize);

using EvaluationProgress = std::function<void(uint64_t doneWindows, uint64_t windows)>;

/// The scores of all windows, text after text. Both sources see the same tokens, a few at a time,
/// so that no more than stepTokens rows are held. Ends with kInterrupted between steps once *stop
/// is set.
Result<std::vector<SampleScore>> evaluate(std::span<const std::vector<int32_t>> texts,
                                          const EvaluationOptions &options, LogitsSource &artifact,
                                          LogitsSource *reference,
                                          const EvaluationProgress &progress = {},
                                          const std::atomic<bool> *stop = nullptr);

/// The sum over the samples of one text, or of all.
SampleScore sumOf(std::span<const SampleScore> samples, std::optional<uint32_t> text = {});

enum class LossMetric { kPerplexity, kKl, kTop1 };

/// As --metric spells it: perplexity, kl, top1.
std::string_view metricName(LossMetric metric);
std::optional<LossMetric> parseMetric(std::string_view name);

/// What was measured of the artifact: perplexity, KL in nats per token, agreement. Nothing where
/// nothing was scored.
std::optional<double> valueOf(const SampleScore &score, LossMetric metric);

/// What the reference itself comes to: beside itself it loses nothing and always agrees.
std::optional<double> referenceValueOf(const SampleScore &score, LossMetric metric);

/// How much worse than the reference: perplexity / reference - 1, KL in nats, 1 - agreement.
/// Nothing where nothing was scored.
std::optional<double> lossOf(const SampleScore &score, LossMetric metric);

/// The upper bound of lossOf() all samples with 95% confidence (PairedBootstrap.h), resampled
/// within each text, whose samples are consecutive. looks: how many such bounds have to hold at
/// once, each of another artifact. Nothing with fewer than 10 samples, which cannot tell.
std::optional<double> lossUpperBound95(std::span<const SampleScore> samples, LossMetric metric,
                                       uint32_t looks = 1);

} // namespace moert
