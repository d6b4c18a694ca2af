#include "compiler/driver/SearchSummary.h"

#include "compiler/driver/TextTable.h"
#include "runtime/base/Size.h"

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
  std::stable_sort(
      measured.begin(), measured.end(),
      [](const MeasuredWidths *a, const MeasuredWidths *b) { return a->cost > b->cost; });
  TextTable table({{"solver", TextTable::Align::kLeft},
                   {"bits/weight"},
                   {"experts"},
                   {"resident"},
                   {"loss"},
                   {"expected bound"},
                   {"KL"}});
  for (const MeasuredWidths *widths : measured) {
    uint64_t bytes = items.expertBytesOf(widths->assignment);
    table.addRow({widths->solver, formatted("%.2f", double(bytes) * 8 / double(expertWeights)),
                  formatBytes(bytes), formatBytes(items.residentBytesOf(widths->assignment)),
                  formatLoss(widths->measurement.loss, metric),
                  formatLoss(widths->measurement.upperBound, metric),
                  formatted("%.4f", widths->measurement.klNats)});
  }
  return table.text("  ");
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
