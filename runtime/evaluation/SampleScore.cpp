#include "runtime/evaluation/SampleScore.h"

#include <utility>

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
  items += other.items;
  points += other.points;
  referencePoints += other.referencePoints;
}

bool beginsUnit(std::span<const SampleScore> samples, size_t i) {
  return i == 0 || samples[i].text != samples[i - 1].text || samples[i].unit != samples[i - 1].unit;
}

SampleScore sumOf(std::span<const SampleScore> samples, std::optional<uint32_t> text) {
  SampleScore sum;
  for (const SampleScore &sample : samples)
    if (!text || sample.text == *text)
      sum.add(sample);
  return sum;
}

static constexpr std::pair<LossMetric, std::string_view> kMetricNames[] = {
    {LossMetric::kPerplexity, "perplexity"},
    {LossMetric::kKl, "kl"},
    {LossMetric::kTop1, "top1"},
    {LossMetric::kChoice, "choice"},
    {LossMetric::kRouge2, "rouge2"},
    {LossMetric::kExact, "exact"},
    {LossMetric::kAccuracy, "accuracy"}};

std::string_view metricName(LossMetric metric) {
  for (const auto &[known, name] : kMetricNames)
    if (known == metric)
      return name;
  return "";
}

std::optional<LossMetric> parseMetric(std::string_view name) {
  for (const auto &[metric, known] : kMetricNames)
    if (known == name)
      return metric;
  return std::nullopt;
}

std::optional<double> valueOf(const SampleScore &score, LossMetric metric) {
  if (isOfItems(metric) ? score.items == 0 : score.tokens == 0)
    return std::nullopt;
  switch (metric) {
  case LossMetric::kPerplexity:
    return score.perplexity();
  case LossMetric::kKl:
    return score.kl();
  case LossMetric::kTop1:
    return score.agreement();
  default:
    return score.points / static_cast<double>(score.items);
  }
}

std::optional<double> referenceValueOf(const SampleScore &score, LossMetric metric) {
  if (isOfItems(metric) ? score.items == 0 : score.tokens == 0)
    return std::nullopt;
  switch (metric) {
  case LossMetric::kPerplexity:
    return score.referencePerplexity();
  case LossMetric::kKl:
    return 0;
  case LossMetric::kTop1:
    return 1;
  default:
    return score.referencePoints / static_cast<double>(score.items);
  }
}

std::optional<double> lossOf(const SampleScore &score, LossMetric metric) {
  if (isOfItems(metric)) {
    if (score.referencePoints == 0)
      return std::nullopt;
    return 1 - score.points / score.referencePoints;
  }
  if (score.tokens == 0)
    return std::nullopt;
  switch (metric) {
  case LossMetric::kKl:
    return score.kl();
  case LossMetric::kTop1:
    return 1 - score.agreement();
  default:
    return deterministicExp((score.lossNats - score.referenceLossNats) /
                            static_cast<double>(score.tokens)) -
           1;
  }
}

} // namespace moert
