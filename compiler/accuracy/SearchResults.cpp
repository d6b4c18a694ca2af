#include "compiler/accuracy/SearchResults.h"

#include "compiler/accuracy/SearchSummary.h"
#include "runtime/base/Size.h"
#include "runtime/evaluation/LossBound.h"
#include "runtime/evaluation/LossQuantile.h"
#include "runtime/evaluation/UnitSpread.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

// An item counts as a window of its own.
static MeasuredText acceptanceText(const SearchResults &results, size_t index) {
  const SearchText &accepted = results.material.acceptedOn[index];
  MeasuredText text = {accepted.name, accepted.hash, accepted.bytes, {}, {}};
  text.windows = results.material.items ? results.material.items->keptOf(index)
                                        : results.material.windows.acceptance.indices[index];
  std::vector<SampleScore> own;
  for (const SampleScore &score : results.search.acceptance.samples) {
    if (score.text != index)
      continue;
    if (results.material.items)
      text.referencePoints.push_back(score.referencePoints);
    else
      text.referenceNats.push_back(score.referenceLossNats);
    own.push_back(score);
  }
  if (own.empty())
    return text;
  text.loss = lossOf(sumOf(own), results.request.metric);
  text.units = unitCount(own);
  text.unitSpread = unitSpread(own, results.request.metric);
  return text;
}

static std::vector<MeasuredCandidate> candidatesOf(const SearchResults &results) {
  const WidthSearchOutcome &outcome = results.search.outcome;
  std::vector<MeasuredCandidate> candidates;
  bool isFound = false; // The chosen one, which may have been measured twice: the first counts.
  for (const MeasuredWidths &widths : outcome.measured) {
    MeasuredCandidate &each = candidates.emplace_back();
    each.solver = widths.solver;
    each.expertBytes = results.items.expertBytesOf(widths.assignment);
    each.residentBytes = results.items.residentBytesOf(widths.assignment);
    each.klNats = widths.measurement.klNats;
    if (!isOfItems(results.request.metric)) {
      each.loss = widths.measurement.loss;
      if (widths.measurement.hasBound)
        each.expectedBound = widths.measurement.predictedBound;
    }
    if (std::isfinite(widths.tokenNs))
      each.tokenNs = widths.tokenNs;
    each.isChosen = !isFound && widths.assignment == outcome.best.assignment;
    isFound = isFound || each.isChosen;
  }
  return candidates;
}

Measured measuredOf(const SearchResults &results) {
  const AccurateCompileRequest &request = results.request;
  const WidthSearchOutcome &outcome = results.search.outcome;
  const std::vector<SampleScore> &samples = results.search.acceptance.samples;
  SampleScore sum = sumOf(samples);
  Measured measured;
  measured.metric = metricName(request.metric);
  measured.target = request.target.value_or(0);
  measured.loss = results.search.acceptance.loss;
  measured.upperBound = results.search.acceptance.upperBound;
  // Tests of a perplexity have no rows of the reference, the search's windows have.
  const bool hasRows = request.metric != LossMetric::kPerplexity;
  measured.klNats = hasRows ? sum.kl() : outcome.best.measurement.klNats;
  measured.topDisagreement =
      hasRows ? 1 - sum.agreement() : outcome.best.measurement.topDisagreement;
  measured.confidence = results.search.acceptance.confidence;
  measured.units = unitCount(samples);
  measured.documents =
      results.material.items ? measured.units : results.material.windows.acceptance.documentCount();
  measured.unitSpread = unitSpread(samples, request.metric).value_or(0);
  measured.isSetAside = results.material.windows.isSetAside;
  measured.windowTokens = results.material.items ? 0 : request.amounts.windowTokens;
  if (results.material.items)
    measured.itemOptions = results.material.items->options;
  measured.solver = outcome.best.solver;
  measured.quantizer = nameOf(request.method);
  measured.measurements = outcome.measurements;
  measured.windowsEvaluated = results.search.windowsEvaluated;
  measured.calibrationTokens = results.calibration.tokens.size();
  for (const CalibrationText &text : results.calibration.texts)
    measured.calibrationTexts.push_back({text.name, text.hash, text.bytes, {}, {}});
  for (size_t t = 0; t < results.material.acceptedOn.size(); ++t)
    measured.acceptanceTexts.push_back(acceptanceText(results, t));
  measured.candidates = candidatesOf(results);
  measured.quantile = request.acceptanceTarget().stated(results.search.acceptance.quantileBound);
  return measured;
}

/// The unit that a heavy tail is due to, as "; ..." or a line; empty if there is none.
static std::string heavyText(const SearchResults &results, const char *before) {
  const LossMetric metric = results.request.metric;
  const auto heavy = heavyUnitOf(results.search.acceptance.samples, metric);
  return heavy ? before + heavyUnitText(*heavy, results.material.acceptedOn[heavy->text].name,
                                        formatLoss(heavy->loss, metric))
               : std::string();
}

std::string resultText(const SearchResults &results) {
  const MeasuredWidths &best = results.search.outcome.best;
  return strCat(
      acceptedText(results.search.acceptance, results.request.acceptanceTarget(),
                   results.material.items
                       ? std::nullopt
                       : std::optional(results.material.windows.acceptance.documentCount()),
                   results.request.metric),
      heavyText(results, "\n"), "\nexperts: ", widthCounts(best.assignment, results.items), "; ",
      formatBytes(results.items.expertBytesOf(best.assignment)), ", by ",
      best.solver == kUniformSolver ? "one width for all, which is best here" : best.solver);
}

/// The bound with room, since the next compile does not test the best assignment first. As it can
/// be typed; empty if no target of this metric is as large.
static std::string typedTarget(double bound, LossMetric metric) {
  constexpr double kRoom = 1.05;
  const double target = std::ceil(bound * kRoom * 1e4) / 1e4;
  if (!isPossibleTarget(target, metric))
    return {};
  return metric == LossMetric::kKl ? strCat(target) : formatLoss(target, metric);
}

/// The targets that the best assignment would meet at the level of the next compile on these texts,
/// as options; empty if one of them cannot be met, or if the search has too few windows for a
/// bound: then its next compile may test other assignments.
static std::string reachableOptions(const SearchResults &results) {
  if (!results.material.items && !results.material.windows.hasBound())
    return {};
  const std::vector<SampleScore> &samples = results.search.acceptance.samples;
  const AcceptanceTarget target = results.request.acceptanceTarget();
  const LossMetric metric = results.request.metric;
  double mean = results.search.acceptance.upperBound;
  std::optional<double> quantile = results.search.acceptance.quantileBound;
  if (const auto next = acceptanceLevels(results.compileNumber + 1)) {
    const double confidence = std::max(next->confidence(AcceptanceChain::kMain),
                                       next->confidence(AcceptanceChain::kReserve));
    mean = std::max(mean, lossUpperBound(samples, metric, confidence).value_or(mean));
    quantile = lossQuantileBound(samples, metric, target.fraction(), confidence);
  }
  std::string options;
  if (target.mean) {
    const std::string typed = typedTarget(mean, metric);
    if (typed.empty())
      return {};
    options = strCat("--accuracy-loss ", typed);
  }
  if (!target.quantile)
    return options;
  const std::string typed = quantile ? typedTarget(*quantile, metric) : std::string();
  if (typed.empty())
    return {};
  return strCat(options, options.empty() ? "" : " ", "--accuracy-quantile ",
                target.fraction() * 100, "%:", typed);
}

Status outOfReach(const SearchResults &results, const std::string &workDirectory) {
  const LossMetric metric = results.request.metric;
  const AcceptanceScores &found = results.search.acceptance;
  if (results.material.items && sumOf(found.samples).referencePoints == 0)
    return failed(
        "the reference has no points in ", metricName(metric), " on the ", found.samples.size(),
        " items of --eval-text, and a loss relative to zero is not defined; with --resume "
        "and other items, ",
        workDirectory, " saves most of the time");
  const WidthAssignment &best = results.search.outcome.best.assignment;
  const AcceptanceTarget target = results.request.acceptanceTarget();
  const std::string quantile = quantileText(found, target, metric);
  const std::string options = reachableOptions(results);
  return failed("no widths meet ",
                target.quantile
                    ? targetText(target, metric)
                    : strCat(formatLoss(*target.mean, metric), " in ", metricName(metric)),
                ". The best found loses ", formatLoss(found.loss, metric), ", at most ",
                formatLoss(found.upperBound, metric), " with ", formatConfidence(found.confidence),
                " confidence, in ", formatBytes(results.items.expertBytesOf(best)), " of experts (",
                widthCounts(best, results.items), ")", itemsText(found, metric, target.scale()),
                quantile.empty() ? "" : strCat("; without an assumption on the tail, ", quantile),
                heavyText(results, "; "), ". ",
                options.empty() ? std::string("With") : strCat(options, " would be met; with"),
                " --resume, ", workDirectory, " saves most of the time");
}

} // namespace moec
