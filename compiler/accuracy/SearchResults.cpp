#include "compiler/accuracy/SearchResults.h"

#include "compiler/accuracy/SearchSummary.h"
#include "runtime/base/Size.h"

#include <cmath>

using namespace moert;

namespace moec {

// An item counts as a window of its own.
static MeasuredText acceptanceText(const SearchResults &results, size_t index) {
  const SearchText &accepted = results.acceptedOn[index];
  MeasuredText text = {accepted.name, accepted.hash, accepted.bytes, {}, {}, {}};
  text.windows = results.acceptanceItems ? results.acceptanceItems->keptOf(index)
                                         : results.windows.acceptance.indices[index];
  for (const SampleScore &score : results.scores) {
    if (score.text != index)
      continue;
    if (results.acceptanceItems)
      text.referencePoints.push_back(score.referencePoints);
    else
      text.referenceNats.push_back(score.referenceLossNats);
  }
  return text;
}

Measured measuredOf(const SearchResults &results) {
  const AccurateCompileRequest &request = results.request;
  const WidthSearchOutcome &outcome = results.outcome;
  SampleScore sum = sumOf(results.scores);
  Measured measured;
  measured.metric = metricName(request.metric);
  measured.target = *request.target;
  measured.loss = outcome.acceptance.loss;
  measured.upperBound = outcome.acceptance.upperBound;
  measured.klNats = sum.kl();
  measured.topDisagreement = 1 - sum.agreement();
  measured.looks = kMaxLooks; // Whether they were needed or not.
  measured.isSetAside = results.windows.isSetAside;
  measured.windowTokens = results.acceptanceItems ? 0 : request.amounts.windowTokens;
  if (results.acceptanceItems)
    measured.itemOptions = results.acceptanceItems->options;
  measured.solver = outcome.best.solver;
  measured.quantizer = nameOf(request.method);
  measured.measurements = outcome.measurements;
  measured.windowsPlayed = results.windowsPlayed;
  measured.calibrationTokens = results.calibration.tokens.size();
  for (const CalibrationText &text : results.calibration.texts)
    measured.calibrationTexts.push_back({text.name, text.hash, text.bytes, {}, {}, {}});
  for (size_t t = 0; t < results.acceptedOn.size(); ++t)
    measured.acceptanceTexts.push_back(acceptanceText(results, t));
  return measured;
}

std::string resultText(const SearchResults &results) {
  const MeasuredWidths &best = results.outcome.best;
  return strCat(acceptedText(results.outcome, sumOf(results.scores), results.scores.size(),
                             results.request.metric),
                "\nexperts: ", widthCounts(best.assignment, results.items), "; ",
                formatBytes(results.items.expertBytesOf(best.assignment)), ", by ",
                best.solver == "uniform" ? "one width for all, which is best here" : best.solver);
}

Status outOfReach(const SearchResults &results, const std::string &workDirectory) {
  const LossMetric metric = results.request.metric;
  if (results.acceptanceItems && sumOf(results.scores).referencePoints == 0)
    return failed("the reference has no points in ", metricName(metric), " on the ",
                  results.scores.size(),
                  " items of --eval-text, and nothing is a share of zero; with --resume and other "
                  "items, ",
                  workDirectory, " saves most of the time");
  const WidthAssignment &best = results.outcome.best.assignment;
  const Measurement &measurement = results.outcome.acceptance;
  // Rounded up to what can be typed, with a little room: the bound is one of several looks.
  const double reachable = std::ceil(measurement.upperBound * 1.05 * 1e4) / 1e4;
  const std::string target =
      metric == LossMetric::kKl ? strCat(reachable) : formatLoss(reachable, metric);
  const bool isReachable = !results.acceptanceItems || reachable < 1;
  return failed("no widths meet ", formatLoss(*results.request.target, metric), " in ",
                metricName(metric), ". The best found loses ", formatLoss(measurement.loss, metric),
                ", at most ", formatLoss(measurement.upperBound, metric),
                " with 95% confidence, in ", formatBytes(results.items.expertBytesOf(best)),
                " of experts (", widthCounts(best, results.items), ")",
                itemsText(results.scores, metric, *results.request.target), ". ",
                isReachable ? strCat("--accuracy-loss ", target, " would be met; with")
                            : std::string("With"),
                " --resume, ", workDirectory, " saves most of the time");
}

} // namespace moec
