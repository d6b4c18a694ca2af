// The rules about measurements made when the widths were chosen: numbers that can be printed,
// compared and resampled. `moert eval` checks whether they are true.
#include "runtime/format/Validate.h"

#include "runtime/format/ValidateRules.h"

#include <cmath>

namespace moert {

Status checkFinite(std::string_view what, double value) {
  if (!std::isfinite(value))
    return invalidInput(what, " is ", value, ", expected a finite number");
  return {};
}

Status checkAtLeast0(std::string_view what, double value) {
  MOERT_RETURN_IF_ERROR(checkFinite(what, value));
  if (value < 0)
    return invalidInput(what, " is ", value, ", expected at least 0");
  return {};
}

Status checkFraction(std::string_view what, double value) {
  MOERT_RETURN_IF_ERROR(checkAtLeast0(what, value));
  if (value > 1)
    return invalidInput(what, " is ", value, ", expected at most 1");
  return {};
}

Status checkQuantile(const std::optional<QuantileBound> &quantile) {
  if (!quantile)
    return {};
  if (!(quantile->fraction > 0 && quantile->fraction < 1))
    return invalidInput("the quantile's fraction is ", quantile->fraction,
                        ", expected more than 0 and less than 1");
  MOERT_RETURN_IF_ERROR(checkFinite("the quantile's bound", quantile->upperBound));
  if (!quantile->target)
    return {};
  MOERT_RETURN_IF_ERROR(checkFinite("the quantile's target", *quantile->target));
  if (!(*quantile->target > 0))
    return invalidInput("the quantile's target is ", *quantile->target, ", expected more than 0");
  return {};
}

static Status checkName(const MeasuredText &text) {
  MOERT_RETURN_IF_ERROR(checkText(text.name, "the name"));
  if (text.name.empty() || text.name.find('/') != std::string::npos)
    return invalidInput("the name '", text.name,
                        "' is empty or has a '/', expected a file's without its directory");
  return {};
}

static Status checkCalibrationText(const MeasuredText &text) {
  MOERT_RETURN_IF_ERROR(checkName(text));
  const size_t losses = text.referenceNats.size() + text.referencePoints.size();
  if (text.loss || text.units > 0 || text.unitSpread)
    return invalidInput("a measured loss, expected none: only acceptance texts are scored");
  if (!text.windows.empty() || losses > 0)
    return invalidInput(text.windows.size(), " scored windows and ", losses,
                        " losses, expected none: only acceptance texts are scored");
  return {};
}

static Status checkOwnLoss(const MeasuredText &text) {
  if (text.loss)
    MOERT_RETURN_IF_ERROR(checkFinite("the text's loss", *text.loss));
  if (text.unitSpread)
    MOERT_RETURN_IF_ERROR(checkAtLeast0("the spread between the text's units", *text.unitSpread));
  if (text.units > text.windows.size())
    return invalidInput(text.units, " units in ", text.windows.size(),
                        " samples of the text, expected at most one for each");
  return {};
}

static Status checkAcceptanceText(const MeasuredText &text, bool isOnItems) {
  MOERT_RETURN_IF_ERROR(checkName(text));
  const char *sample = isOnItems ? "item" : "window";
  const char *ourScores = isOnItems ? " points" : " losses";
  const char *otherScores = isOnItems ? " losses" : " points";
  const std::vector<double> &ours = isOnItems ? text.referencePoints : text.referenceNats;
  const std::vector<double> &others = isOnItems ? text.referenceNats : text.referencePoints;
  if (!others.empty())
    return invalidInput(others.size(), otherScores, " of the reference, expected none for ", sample,
                        "s");
  if (text.windows.size() != ours.size())
    return invalidInput(text.windows.size(), " scored ", sample, "s and ", ours.size(), ourScores,
                        " of the reference, expected as many");
  for (size_t i = 1; i < text.windows.size(); ++i)
    if (text.windows[i] <= text.windows[i - 1])
      return invalidInput(sample, " ", text.windows[i], " follows ", text.windows[i - 1],
                          ", expected ascending ", sample, "s");
  MOERT_RETURN_IF_ERROR(checkOwnLoss(text));
  for (double value : ours)
    MOERT_RETURN_IF_ERROR(isOnItems ? checkFraction("a point of the reference", value)
                                    : checkAtLeast0("a loss of the reference", value));
  return {};
}

static Status checkTexts(const Measured &measured) {
  for (size_t i = 0; i < measured.calibrationTexts.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkCalibrationText(measured.calibrationTexts[i])
                              .withContext(strCat("calibration text ", i)));
  bool isScored = false;
  for (size_t i = 0; i < measured.acceptanceTexts.size(); ++i) {
    MOERT_RETURN_IF_ERROR(checkAcceptanceText(measured.acceptanceTexts[i], measured.isOnItems())
                              .withContext(strCat("acceptance text ", i)));
    isScored = isScored || !measured.acceptanceTexts[i].windows.empty();
  }
  if (!isScored)
    return invalidInput("no ", measured.isOnItems() ? "item" : "window",
                        " of an acceptance text was scored, expected at least 1");
  return {};
}

static Status checkItemOptions(const Measured &measured) {
  if (measured.quantile)
    return invalidInput("a quantile of items, expected none: an item loses at most its points");
  if (measured.isSetAside)
    return invalidInput("items that are set aside from the calibration texts, expected files of "
                        "their own");
  for (const auto &[option, value] : measured.itemOptions) {
    MOERT_RETURN_IF_ERROR(checkText(option, "an item option"));
    MOERT_RETURN_IF_ERROR(checkText(value, "an item option's value"));
  }
  return {};
}

static Status checkWindows(const Measured &measured, const ModelInfo &model) {
  if (!measured.itemOptions.empty())
    return invalidInput(measured.itemOptions.size(),
                        " options of items, expected none for windows");
  return checkRange("tokens of a window", measured.windowTokens, 2, model.maxPositions);
}

static Status checkCandidate(const MeasuredCandidate &candidate) {
  MOERT_RETURN_IF_ERROR(checkText(candidate.solver, "the solver"));
  if (candidate.residentBytes > UINT64_MAX - candidate.expertBytes)
    return invalidInput(candidate.expertBytes, " bytes of experts and ", candidate.residentBytes,
                        " resident ones, expected at most 2^64 - 1 together");
  MOERT_RETURN_IF_ERROR(checkFinite("the KL divergence", candidate.klNats));
  if (candidate.loss)
    MOERT_RETURN_IF_ERROR(checkFinite("the loss", *candidate.loss));
  if (candidate.expectedBound)
    MOERT_RETURN_IF_ERROR(checkFinite("the expected bound", *candidate.expectedBound));
  if (candidate.tokenNs)
    MOERT_RETURN_IF_ERROR(checkAtLeast0("the time of a token", *candidate.tokenNs));
  return {};
}

static Status checkCandidates(const Measured &measured) {
  uint32_t chosen = 0;
  for (size_t i = 0; i < measured.candidates.size(); ++i) {
    MOERT_RETURN_IF_ERROR(
        checkCandidate(measured.candidates[i]).withContext(strCat("candidate ", i)));
    chosen += measured.candidates[i].isChosen;
  }
  if (chosen > 1)
    return invalidInput(chosen, " candidates that were chosen, expected at most 1");
  return {};
}

static Status checkMeasured(const Measured &measured, const ModelInfo &model) {
  for (const auto &[text, what] : {std::pair{&measured.metric, "the metric"},
                                   {&measured.solver, "the solver"},
                                   {&measured.quantizer, "the quantizer"}})
    MOERT_RETURN_IF_ERROR(checkText(*text, what));
  if (measured.metric.empty())
    return invalidInput("the metric is empty, expected its name");
  MOERT_RETURN_IF_ERROR(checkAtLeast0("the target", measured.target));
  // An artifact may score better than its reference.
  MOERT_RETURN_IF_ERROR(checkFinite("the loss", measured.loss));
  MOERT_RETURN_IF_ERROR(checkFinite("the loss's upper bound", measured.upperBound));
  // Negative only by rounding.
  MOERT_RETURN_IF_ERROR(checkFinite("the KL divergence", measured.klNats));
  MOERT_RETURN_IF_ERROR(checkFraction("the top-1 disagreement", measured.topDisagreement));
  MOERT_RETURN_IF_ERROR(checkQuantile(measured.quantile));
  if (!(measured.confidence >= 0.9 && measured.confidence <= 0.9999))
    return invalidInput("the bound's confidence is ", measured.confidence,
                        ", expected 0.9 to 0.9999");
  MOERT_RETURN_IF_ERROR(checkAtLeast0("the spread between units", measured.unitSpread));
  MOERT_RETURN_IF_ERROR(checkCandidates(measured));
  MOERT_RETURN_IF_ERROR(measured.isOnItems() ? checkItemOptions(measured)
                                             : checkWindows(measured, model));
  return checkTexts(measured);
}

Status validateMeasured(const Artifact &artifact) {
  if (!artifact.measured)
    return {};
  return checkMeasured(*artifact.measured, artifact.model).withContext("measured");
}

static Status checkQuickLoss(const QuickLoss &quick, const ModelInfo &model) {
  MOERT_RETURN_IF_ERROR(checkFinite("the loss", quick.loss));
  MOERT_RETURN_IF_ERROR(checkFinite("the KL divergence", quick.klNats));
  MOERT_RETURN_IF_ERROR(checkFraction("the top-1 disagreement", quick.topDisagreement));
  MOERT_RETURN_IF_ERROR(checkRange("windows", quick.windows, 1, UINT32_MAX));
  return checkRange("tokens of a window", quick.windowTokens, 2, model.maxPositions);
}

Status validateQuickLoss(const Artifact &artifact) {
  return artifact.quickLoss
             ? checkQuickLoss(*artifact.quickLoss, artifact.model).withContext("quick loss")
             : Status();
}

} // namespace moert
