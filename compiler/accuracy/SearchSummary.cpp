#include "compiler/accuracy/SearchSummary.h"

#include "compiler/inspection/TextTable.h"
#include "runtime/base/Size.h"
#include "runtime/evaluation/LossBound.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

using namespace moert;

namespace moec {

static std::string formatted(const char *format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string formatLoss(double loss, LossMetric metric) {
  if (metric == LossMetric::kKl)
    return formatted("%.4f nats", loss);
  // What is less than the last of two decimals would look like nothing.
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
    columns.push_back({"bound"});
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
      row.push_back(formatLoss(widths->measurement.upperBound, metric));
    }
    row.push_back(formatted("%.4f", widths->measurement.klNats));
    if (outcome.isTimed)
      row.push_back(std::isfinite(widths->tokenNs) ? formatted("%.4g", widths->tokenNs / 1e6)
                                                   : "does not fit");
    table.addRow(std::move(row));
  }
  return table.text("  ");
}

std::string acceptedText(const WidthSearchOutcome &outcome, const SampleScore &sum,
                         uint64_t samples, LossMetric metric) {
  std::string text =
      strCat(metricName(metric), " loss ", formatLoss(outcome.acceptance.loss, metric),
             ", at most ", formatLoss(outcome.acceptance.upperBound, metric),
             " with 95% confidence, as one of ", kMaxLooks, " acceptance tests\n(", samples,
             isOfItems(metric) ? " items" : " windows", " that nothing else has seen); ");
  if (isOfItems(metric))
    text += strCat(formatted("%.4f", *valueOf(sum, metric)), " beside the reference's ",
                   formatted("%.4f", *referenceValueOf(sum, metric)), ", ");
  return strCat(text, "KL ", formatLoss(sum.kl(), LossMetric::kKl), ", top-1 agreement ",
                formatLoss(sum.agreement(), LossMetric::kTop1));
}

std::string itemsText(std::span<const SampleScore> scores, LossMetric metric, double target) {
  const double least = leastBound(scores, kAcceptanceConfidence);
  if (!isOfItems(metric) || least <= target)
    return {};
  const auto known = std::count_if(scores.begin(), scores.end(), [](const SampleScore &score) {
    return score.referencePoints > 0;
  });
  return strCat("; ", scores.size(), " items, of which the reference has points in ", known,
                ", can show no loss below ", formatLoss(least, metric), ": more are needed");
}

std::string widthCounts(const WidthAssignment &assignment, const WidthItems &items) {
  std::map<uint32_t, uint32_t, std::greater<>> experts;
  for (const auto &[place, width] : items.widthsOf(assignment).experts)
    ++experts[width.bits];
  std::string text;
  for (const auto &[bits, count] : experts)
    text += strCat(text.empty() ? "" : ", ", bits, " bits: ", count);
  return text;
}

} // namespace moec
