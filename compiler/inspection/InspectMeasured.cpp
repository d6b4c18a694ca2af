// An artifact's accuracy: the target, the measured loss, the texts and the cost of the search.
#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/Size.h"
#include "runtime/base/Status.h"

#include <cstdio>

using namespace moert;

namespace moec {

using Align = TextTable::Align;

// KL is in nats, every other loss is a percentage.
std::string lossText(const std::string &metric, double loss) {
  return metric == "kl" ? fixed(loss, 5) + " nats per token" : fixed(loss * 100, 2) + "%";
}

static uint64_t windowsOf(const std::vector<MeasuredText> &texts) {
  uint64_t windows = 0;
  for (const MeasuredText &text : texts)
    windows += text.windows.size();
  return windows;
}

static const char *samplesOf(const Measured &measured) {
  return measured.isOnItems() ? "items" : "windows";
}

std::string unitsText(double fraction, const std::string &loss) {
  char percent[24];
  std::snprintf(percent, sizeof percent, "%.4g%%", fraction * 100);
  return strCat("at least ", percent, " of units lose at most ", loss, " each");
}

std::string targetText(const Measured &measured) {
  std::string text;
  if (measured.target > 0)
    text = strCat("loss in ", measured.metric, " of at most ",
                  lossText(measured.metric, measured.target));
  if (const auto &quantile = measured.quantile; quantile && quantile->target)
    text += strCat(text.empty() ? "" : ", and ",
                   unitsText(quantile->fraction, lossText(measured.metric, *quantile->target)));
  // Artifacts of earlier versions do not have the quantile.
  return text.empty() ? "of the losses of single units (--accuracy-quantile)" : text;
}

/// A loss in a table. Nats are without their unit, which the lines before the tables have, so that
/// a row has at most 80 columns.
static std::string lossCell(const Measured &measured, const std::optional<double> &loss) {
  if (!loss)
    return "-";
  return measured.metric == "kl" ? fixed(*loss, 5) : lossText(measured.metric, *loss);
}

static std::string describeTexts(const Measured &measured) {
  TextTable table({{"text", Align::kLeft},
                   {"bytes"},
                   {"XXH3-64"},
                   {samplesOf(measured)},
                   {"loss"},
                   {"spread"},
                   {"read by", Align::kLeft}});
  for (const MeasuredText &text : measured.calibrationTexts)
    table.addRow({text.name, std::to_string(text.bytes), formatChecksum(text.hash), "-", "-", "-",
                  "calibration, search"});
  for (const MeasuredText &text : measured.acceptanceTexts)
    table.addRow({text.name, std::to_string(text.bytes), formatChecksum(text.hash),
                  std::to_string(text.windows.size()), lossCell(measured, text.loss),
                  lossCell(measured, text.unitSpread), "acceptance"});
  return table.text(kIndent);
}

/// Empty if the artifact does not have them.
static std::string describeCandidates(const Measured &measured) {
  if (measured.candidates.empty())
    return "";
  TextTable table({{"proposed by", Align::kLeft},
                   {"experts"},
                   {"resident"},
                   {"loss"},
                   {"bound"},
                   {"KL"},
                   {"ms/token"},
                   {"", Align::kLeft}});
  for (const MeasuredCandidate &each : measured.candidates)
    table.addRow({each.solver, formatBytes(each.expertBytes), formatBytes(each.residentBytes),
                  lossCell(measured, each.loss), lossCell(measured, each.expectedBound),
                  fixed(each.klNats, 5), each.tokenNs ? fixed(*each.tokenNs / 1e6, 2) : "-",
                  each.isChosen ? "chosen" : ""});
  return strCat("\n", kIndent,
                "widths that the search measured; bound: that expected in the acceptance test\n",
                table.text(kIndent));
}

static std::string describeSamples(const Measured &measured) {
  const std::string count = strCat(windowsOf(measured.acceptanceTexts), " ", samplesOf(measured));
  if (!measured.isOnItems())
    return strCat(count, " of ", measured.windowTokens, " tokens",
                  measured.isSetAside ? ", set aside from the calibration texts"
                                      : ", of texts used for nothing else");
  std::string options;
  for (const auto &[option, value] : measured.itemOptions)
    options += strCat(" --", option, " ", value);
  return strCat(count, ", used for nothing else,", options);
}

std::string describeMeasured(const Measured &measured) {
  TextTable table({{"", Align::kLeft}, {"", Align::kLeft}});
  table.addRow({"target", targetText(measured)});
  table.addRow({"measured", boundedLossText(measured)});
  table.addRow({"also", strCat("KL ", fixed(measured.klNats, 5), " nats per token, top-1 ",
                               "agreement ", fixed((1 - measured.topDisagreement) * 100, 2), "%",
                               measured.metric == "perplexity" ? "; search's text" : "")});
  table.addRow({"on", describeSamples(measured)});
  table.addRow(
      {"units",
       strCat(measured.units,
              measured.isOnItems() ? " items" : strCat(" of ", measured.documents, " documents"),
              ", whose losses have a standard deviation of ",
              lossText(measured.metric, measured.unitSpread))});
  table.addRow({"chosen by", strCat(measured.solver, ", quantizer ", measured.quantizer)});
  table.addRow(
      {"search", strCat(measured.measurements, " measurements, ", measured.windowsEvaluated,
                        measured.isOnItems() ? " windows and items" : " windows",
                        " evaluated; calibration on ", measured.calibrationTokens, " tokens")});
  return strCat("accuracy, relative to the same model at `source`:\n", table.text(kIndent), "\n",
                describeTexts(measured), describeCandidates(measured));
}

} // namespace moec
