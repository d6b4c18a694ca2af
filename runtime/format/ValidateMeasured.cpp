// The rules about measurements made when the widths were chosen: numbers that can be printed,
// compared and resampled. `moert eval` checks whether they are true.
#include "runtime/format/Validate.h"

#include "runtime/format/ValidateRules.h"

namespace moert {

Status checkQuantile(const std::optional<QuantileBound> &quantile) {
  if (!quantile)
    return {};
  if (!(quantile->fraction > 0 && quantile->fraction < 1))
    return invalidInput("the quantile's fraction is ", quantile->fraction,
                        ", expected more than 0 and less than 1");
  if (quantile->target && !(*quantile->target > 0))
    return invalidInput("the quantile's target is ", *quantile->target, ", expected more than 0");
  return {};
}

static Status checkName(const MeasuredText &text) {
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
  if (text.units > text.windows.size())
    return invalidInput(text.units, " units in ", text.windows.size(),
                        " samples of the text, expected at most one for each");
  return {};
}

static Status checkTexts(const Measured &measured) {
  for (size_t i = 0; i < measured.calibrationTexts.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkCalibrationText(measured.calibrationTexts[i])
                              .withContext(strCat("calibration_texts ", i)));
  bool isScored = false;
  for (size_t i = 0; i < measured.acceptanceTexts.size(); ++i) {
    MOERT_RETURN_IF_ERROR(checkAcceptanceText(measured.acceptanceTexts[i], measured.isOnItems())
                              .withContext(strCat("acceptance_texts ", i)));
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
  return {};
}

static Status checkWindows(const Measured &measured, const ModelInfo &model) {
  if (!measured.itemOptions.empty())
    return invalidInput(measured.itemOptions.size(),
                        " options of items, expected none for windows");
  return checkRange("window_tokens", measured.windowTokens, 2, model.maxPositions);
}

static Status checkCandidates(const Measured &measured) {
  uint32_t chosen = 0;
  for (size_t i = 0; i < measured.candidates.size(); ++i) {
    const MeasuredCandidate &candidate = measured.candidates[i];
    if (candidate.residentBytes > UINT64_MAX - candidate.expertBytes)
      return invalidInput("candidates ", i, ": ", candidate.expertBytes, " bytes of experts and ",
                          candidate.residentBytes,
                          " resident ones, expected at most 2^64 - 1 together");
    chosen += candidate.isChosen;
  }
  if (chosen > 1)
    return invalidInput(chosen, " candidates that were chosen, expected at most 1");
  return {};
}

static Status checkMeasured(const Measured &measured, const ModelInfo &model) {
  MOERT_RETURN_IF_ERROR(checkFields(measured));
  if (measured.metric.empty())
    return invalidInput("the metric is empty, expected its name");
  MOERT_RETURN_IF_ERROR(checkQuantile(measured.quantile));
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

Status validateQuickLoss(const Artifact &artifact) {
  if (!artifact.quickLoss)
    return {};
  const QuickLoss &quick = *artifact.quickLoss;
  MOERT_RETURN_IF_ERROR(checkFields(quick).withContext("quick_loss"));
  return checkRange("window_tokens", quick.windowTokens, 2, artifact.model.maxPositions)
      .withContext("quick_loss");
}

} // namespace moert
