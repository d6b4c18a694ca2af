// The rules about what was measured when the widths were chosen: numbers that can be printed,
// compared and resampled. Whether they are true, `moert eval` can say.
#include "runtime/format/Validate.h"

#include "runtime/format/ValidateRules.h"

#include <cmath>

namespace moert {

// The first version that has it.
constexpr uint16_t kMeasuredMinor = 2;

static Status checkFinite(std::string_view what, double value) {
  if (!std::isfinite(value))
    return invalidInput(what, " is ", value, ", expected a finite number");
  return {};
}

// Both rules refuse NaN.
static Status checkAtLeast0(std::string_view what, double value) {
  MOERT_RETURN_IF_ERROR(checkFinite(what, value));
  if (value < 0)
    return invalidInput(what, " is ", value, ", expected at least 0");
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
  if (!text.windows.empty() || !text.referenceNats.empty())
    return invalidInput(text.windows.size(), " scored windows and ", text.referenceNats.size(),
                        " losses, expected none: only acceptance texts are scored");
  return {};
}

static Status checkAcceptanceText(const MeasuredText &text) {
  MOERT_RETURN_IF_ERROR(checkName(text));
  if (text.windows.size() != text.referenceNats.size())
    return invalidInput(text.windows.size(), " scored windows and ", text.referenceNats.size(),
                        " losses of the reference, expected as many");
  for (size_t i = 1; i < text.windows.size(); ++i)
    if (text.windows[i] <= text.windows[i - 1])
      return invalidInput("window ", text.windows[i], " follows ", text.windows[i - 1],
                          ", expected ascending windows");
  for (double nats : text.referenceNats)
    MOERT_RETURN_IF_ERROR(checkAtLeast0("a loss of the reference", nats));
  return {};
}

static Status checkTexts(const Measured &measured) {
  for (size_t i = 0; i < measured.calibrationTexts.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkCalibrationText(measured.calibrationTexts[i])
                              .withContext(strCat("calibration text ", i)));
  bool isScored = false;
  for (size_t i = 0; i < measured.acceptanceTexts.size(); ++i) {
    MOERT_RETURN_IF_ERROR(checkAcceptanceText(measured.acceptanceTexts[i])
                              .withContext(strCat("acceptance text ", i)));
    isScored = isScored || !measured.acceptanceTexts[i].windows.empty();
  }
  if (!isScored)
    return invalidInput("no window of an acceptance text was scored, expected at least 1");
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
  // An artifact may come out better than its reference.
  MOERT_RETURN_IF_ERROR(checkFinite("the loss", measured.loss));
  MOERT_RETURN_IF_ERROR(checkFinite("the loss's upper bound", measured.upperBound));
  // Never negative but for rounding.
  MOERT_RETURN_IF_ERROR(checkFinite("the KL divergence", measured.klNats));
  MOERT_RETURN_IF_ERROR(checkAtLeast0("the top-1 disagreement", measured.topDisagreement));
  if (measured.topDisagreement > 1)
    return invalidInput("the top-1 disagreement is ", measured.topDisagreement,
                        ", expected at most 1");
  MOERT_RETURN_IF_ERROR(checkRange("number of looks", measured.looks, 1, kMaxMeasuredLooks));
  MOERT_RETURN_IF_ERROR(
      checkRange("tokens of a window", measured.windowTokens, 2, model.maxPositions));
  return checkTexts(measured);
}

Status validateMeasured(const Artifact &artifact) {
  if (!artifact.measured)
    return {};
  if (artifact.minorVersion < kMeasuredMinor)
    return invalidInput("what was measured is said, which version 1.", artifact.minorVersion,
                        " does not have");
  return checkMeasured(*artifact.measured, artifact.model).withContext("measured");
}

} // namespace moert
