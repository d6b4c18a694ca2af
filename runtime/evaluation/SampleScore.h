// Scores of samples, and the values and losses that follow from them for an artifact and its
// reference (LossBound.h: upper bounds of losses).
//
// A sample is a window of a text, or an item. Sums are doubles, added token by token in a sample
// and sample by sample: the same logits give the same numbers on every machine.
#pragma once

#include "runtime/base/DeterministicMath.h"
#include "runtime/evaluation/RowScore.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace moert {

/// The scores of one sample, or the sum over several. Consecutive samples with equal text and unit
/// are one unit: a document's windows, a packed window, or an item.
struct SampleScore {
  uint32_t text = 0; // Index of its file.
  uint32_t unit = 0; // The unit within the file.
  uint64_t tokens = 0;
  double lossNats = 0, referenceLossNats = 0, klNats = 0;
  uint64_t agreeing = 0;
  // For items only: how many, and both models' points, 0 to 1 for each item.
  uint64_t items = 0;
  double points = 0, referencePoints = 0;

  void add(const RowScore &row);
  void add(const SampleScore &other);

  double perplexity() const { return deterministicExp(lossNats / static_cast<double>(tokens)); }
  double referencePerplexity() const {
    return deterministicExp(referenceLossNats / static_cast<double>(tokens));
  }
  double kl() const { return klNats / static_cast<double>(tokens); }
  double agreement() const { return static_cast<double>(agreeing) / static_cast<double>(tokens); }
};

/// Whether sample i is the first of its unit.
bool beginsUnit(std::span<const SampleScore> samples, size_t i);

/// The sum over the samples of one text, or of all.
SampleScore sumOf(std::span<const SampleScore> samples, std::optional<uint32_t> text = {});

enum class LossMetric { kPerplexity, kKl, kTop1, kChoice, kRouge2, kExact, kAccuracy };

/// Whether the metric is measured on items, not on windows of texts.
constexpr bool isOfItems(LossMetric metric) {
  return metric == LossMetric::kChoice || metric == LossMetric::kRouge2 ||
         metric == LossMetric::kExact || metric == LossMetric::kAccuracy;
}

/// Its name in --metric: perplexity, kl, top1, choice, rouge2, exact, accuracy.
std::string_view metricName(LossMetric metric);
std::optional<LossMetric> parseMetric(std::string_view name);

/// The artifact's value: perplexity, KL in nats per token, agreement; for items their mean points.
/// nullopt if nothing was scored.
std::optional<double> valueOf(const SampleScore &score, LossMetric metric);

/// The reference's own value; its KL from itself is 0, its agreement 1.
std::optional<double> referenceValueOf(const SampleScore &score, LossMetric metric);

/// How much worse than the reference: perplexity / reference - 1, KL in nats, 1 - agreement, for
/// items 1 - points / reference's points. nullopt if nothing was scored or if the reference has no
/// points: then the relative loss is undefined.
std::optional<double> lossOf(const SampleScore &score, LossMetric metric);

} // namespace moert
