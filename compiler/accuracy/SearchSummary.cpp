#include "compiler/accuracy/SearchSummary.h"

#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"
#include "runtime/base/Size.h"
#include "runtime/evaluation/LossBound.h"
#include "runtime/evaluation/LossQuantile.h"
#include "runtime/evaluation/UnitSpread.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

using namespace moert;

namespace moec {

static std::string formatted(const char *format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string formatLoss(double loss, LossMetric metric) {
  if (loss >= kMostLoss)
    return metric == LossMetric::kKl ? formatted("%.0e nats or more", kMostLoss)
                                     : formatted("%.0e%% or more", kMostLoss * 100);
  if (metric == LossMetric::kKl)
    return formatted("%.4f nats", loss);
  // A loss below the last of two decimals would be shown as 0.
  return formatted(loss != 0 && std::abs(loss) < 5e-5 ? "%.1g%%" : "%.2f%%", loss * 100);
}

std::string measuredTable(const WidthSearchOutcome &outcome, const WidthItems &items,
                          uint64_t expertWeights, LossMetric metric) {
  std::vector<const MeasuredWidths *> measured;
  for (const MeasuredWidths &widths : outcome.measured)
    measured.push_back(&widths);
  std::stable_sort(measured.begin(), measured.end(),
                   [&](const MeasuredWidths *a, const MeasuredWidths *b) {
                     return outcome.isTimed ? a->tokenNs > b->tokenNs : a->cost > b->cost;
                   });
  std::vector<TextTable::Column> columns = {
      {"solver", TextTable::Align::kLeft}, {"bits/weight"}, {"experts"}, {"resident"}};
  if (!isOfItems(metric)) {
    columns.push_back({"loss"});
    columns.push_back({"expected bound"});
  }
  columns.push_back({"KL"});
  if (outcome.isTimed)
    columns.push_back({"ms a token"});
  TextTable table(std::move(columns));
  for (const MeasuredWidths *widths : measured) {
    uint64_t bytes = items.expertBytesOf(widths->assignment);
    std::vector<std::string> row = {
        widths->solver, formatted("%.2f", double(bytes) * 8 / double(expertWeights)),
        formatBytes(bytes), formatBytes(items.residentBytesOf(widths->assignment))};
    if (!isOfItems(metric)) {
      row.push_back(formatLoss(widths->measurement.loss, metric));
      row.push_back(widths->measurement.hasBound
                        ? formatLoss(widths->measurement.predictedBound, metric)
                        : "-");
    }
    row.push_back(formatted("%.4f", widths->measurement.klNats));
    if (outcome.isTimed)
      row.push_back(std::isfinite(widths->tokenNs) ? formatted("%.4g", widths->tokenNs / 1e6)
                                                   : "does not fit");
    table.addRow(std::move(row));
  }
  return table.text("  ");
}

std::string fewWindowsText(uint64_t windows, const std::string &helps) {
  return strCat(
      "the search has ", windows, " windows, and a bound takes ", kMinimumBoundUnits,
      ": widths are ordered by their divergence (KL) on them, without an expected bound; ", helps,
      " helps");
}

std::string targetText(const AcceptanceTarget &target, LossMetric metric) {
  std::string text;
  if (target.mean)
    text = strCat(metricName(metric), " loss of at most ", formatLoss(*target.mean, metric));
  if (target.quantile)
    text += strCat(text.empty() ? "" : ", and ",
                   unitsText(target.quantile->fraction, formatLoss(target.quantile->loss, metric)),
                   " in ", metricName(metric));
  return text;
}

std::string quantileText(const AcceptanceScores &found, const AcceptanceTarget &target,
                         LossMetric metric) {
  if (isOfItems(metric))
    return {};
  if (found.quantileBound)
    return unitsText(target.fraction(), formatLoss(*found.quantileBound, metric));
  return strCat("nothing about ", formatted("%.4g%%", target.fraction() * 100),
                " of units, which takes ",
                leastUnitsOfQuantile(target.fraction(), found.confidence), " units");
}

std::string acceptedText(const AcceptanceScores &found, const AcceptanceTarget &target,
                         std::optional<uint64_t> documents, LossMetric metric) {
  const SampleScore sum = sumOf(found.samples);
  std::string text =
      strCat("accepted: ", targetText(target, metric),
             " with 95% confidence, all tests of these texts taken together\nmeasured: ",
             formatLoss(found.loss, metric), ", at most ", formatLoss(found.upperBound, metric),
             " with the ", formatConfidence(found.confidence), " confidence of this test, on ",
             unitCount(found.samples));
  if (documents)
    text += strCat(" units of ", *documents, " documents in ", found.samples.size(), " windows");
  else
    text += strCat(" items, with ", formatted("%.4f", *valueOf(sum, metric)),
                   " beside the reference's ", formatted("%.4f", *referenceValueOf(sum, metric)));
  if (const std::optional<double> spread = unitSpread(found.samples, metric))
    text += strCat("; standard deviation between ", documents ? "units " : "items ",
                   formatLoss(*spread, metric));
  // A test of a perplexity has no rows of the reference; the search's table has divergences.
  if (metric != LossMetric::kPerplexity)
    text += strCat("; KL ", formatLoss(sum.kl(), LossMetric::kKl), ", top-1 agreement ",
                   formatLoss(sum.agreement(), LossMetric::kTop1));
  const std::string quantile = quantileText(found, target, metric);
  return quantile.empty() ? text
                          : strCat(text, "\nwithout an assumption on the tail: ", quantile,
                                   ", with the same confidence");
}

std::string itemsText(const AcceptanceScores &found, LossMetric metric, double target) {
  if (!isOfItems(metric))
    return {};
  const double least = leastBound(found.samples, found.confidence);
  if (least <= target)
    return {};
  const auto known =
      std::count_if(found.samples.begin(), found.samples.end(),
                    [](const SampleScore &score) { return score.referencePoints > 0; });
  return strCat("; ", found.samples.size(), " items, of which the reference has points in ", known,
                ", can show no loss below ", formatLoss(least, metric), ": more are needed");
}

std::string widthCounts(const WidthAssignment &assignment, const WidthItems &items) {
  const auto isWider = [](const ExpertWidth &a, const ExpertWidth &b) {
    return std::pair(a.meanBits(), a.bits) > std::pair(b.meanBits(), b.bits);
  };
  std::map<ExpertWidth, uint32_t, decltype(isWider)> experts(isWider);
  for (const std::vector<ExpertWidth> &layer : items.expertWidthsOf(assignment))
    for (const ExpertWidth &width : layer)
      ++experts[width];
  std::string text;
  for (const auto &[width, count] : experts)
    text += strCat(text.empty() ? "" : ", ", width.text(), " bits: ", count);
  return text;
}

} // namespace moec
