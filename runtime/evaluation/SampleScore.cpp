#include "runtime/evaluation/SampleScore.h"

#include "runtime/evaluation/PairedBootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

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
    {LossMetric::kExact, "exact"}};

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
    return exp64((score.lossNats - score.referenceLossNats) / static_cast<double>(score.tokens)) -
           1;
  }
}

std::optional<double> lossUpperBound95(std::span<const SampleScore> samples, LossMetric metric,
                                       uint32_t looks) {
  std::vector<uint32_t> texts;
  texts.reserve(samples.size());
  for (const SampleScore &sample : samples)
    texts.push_back(sample.text);
  std::optional<double> bound = upperBound95(
      texts,
      [&](std::span<const uint32_t> drawn) {
        SampleScore sum;
        for (uint32_t sample : drawn)
          sum.add(samples[sample]);
        return lossOf(sum, metric).value_or(std::numeric_limits<double>::infinity());
      },
      looks);
  if (bound && isOfItems(metric))
    bound = std::max(*bound, leastBound95(samples, looks));
  return bound;
}

std::optional<double> lossUpperBound(std::span<const SampleScore> samples, LossMetric metric,
                                     double confidence) {
  const long looks = std::lround(0.05 / (1 - confidence));
  return lossUpperBound95(samples, metric, static_cast<uint32_t>(std::max(looks, 1L)));
}

double leastBound95(std::span<const SampleScore> items, uint32_t looks) {
  const auto count = std::count_if(
      items.begin(), items.end(), [](const SampleScore &item) { return item.referencePoints > 0; });
  return count == 0 ? 1 : 1 - exp64(log64(0.05 / looks) / static_cast<double>(count));
}

} // namespace moert
