#include "compiler/accuracy/AccurateRequest.h"

#include "compiler/session/WorkDirectory.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/InputText.h"
#include "runtime/base/OutputFile.h"

#include <algorithm>
#include <filesystem>

using namespace moert;

namespace moec {

bool calibratesOnSelfText(const AccurateCompileRequest &request) {
  return request.selfTextDocuments > 0 && request.calibrationTexts.empty() &&
         request.profilePath.empty();
}

bool hasReference(const AccurateCompileRequest &request) {
  return request.hasTarget() || request.profilePath.empty();
}

bool hasQuickLoss(const AccurateCompileRequest &request) {
  return !request.hasTarget() && request.profilePath.empty() && !request.readsImages;
}

bool keepsProfileRows(const AccurateCompileRequest &request) {
  return hasQuickLoss(request) && request.isWidthRaised;
}

bool acceptsOnSelfText(const AccurateCompileRequest &request) {
  return request.selfTextDocuments > 0 && request.hasTarget() && !isOfItems(request.metric) &&
         request.acceptanceTexts.empty();
}

static uint64_t windowsOfCalibration(const AccurateCompileRequest &request) {
  return divideUp(request.calibrationTokens, std::max(1u, request.amounts.windowTokens));
}

// No windows of the calibration's text are set aside for the acceptance.
static bool acceptsElsewhere(const AccurateCompileRequest &request) {
  return acceptsOnSelfText(request) || !request.acceptanceTexts.empty();
}

SelfWritten selfWrittenOf(const AccurateCompileRequest &request) {
  SelfWritten written;
  const bool calibrates = calibratesOnSelfText(request);
  if (acceptsOnSelfText(request))
    written.accepted = calibrates ? request.selfTextDocuments / 2 : request.selfTextDocuments;
  if (!calibrates)
    return written;
  written.calibrated = request.selfTextDocuments - written.accepted;
  if (request.hasTarget() && acceptsElsewhere(request)) {
    // What calibration and the search read, and a quarter of the latter's windows more: they may
    // repeat calibration. A larger N helps where most do.
    const uint64_t read = windowsOfCalibration(request) + 5 * request.amounts.searchWindows / 4;
    written.calibrated =
        std::min(written.calibrated, std::max(read, request.selfTextDocuments / 5));
  }
  return written;
}

// Every document fills one window, which has one use.
static uint64_t leastSelfText(const AccurateCompileRequest &request, bool calibrates,
                              bool accepts) {
  const uint64_t searched = calibrates && request.hasTarget() ? kLeastWindows : 0;
  const uint64_t read = searched + (searched > 0 ? windowsOfCalibration(request) : 0);
  if (!accepts)
    return std::max<uint64_t>(read, 1);
  return calibrates ? std::max<uint64_t>(2 * kMinimumBoundUnits, 2 * read - 1) // The larger half.
                    : kMinimumBoundUnits;
}

static Status checkSelfText(const AccurateCompileRequest &request) {
  const bool calibrates = calibratesOnSelfText(request), accepts = acceptsOnSelfText(request);
  if (request.selfTextDocuments > 0 && !calibrates && !accepts)
    return invalidInput(
        "--self-text beside texts or a profile for everything, expected --self-text "
        "in place of --calibration-text or --eval-text");
  const uint64_t least = leastSelfText(request, calibrates, accepts);
  if (request.selfTextDocuments == 0 || request.selfTextDocuments >= least)
    return {};
  std::string uses;
  if (accepts)
    uses = strCat("the acceptance needs ", kMinimumBoundUnits, " documents",
                  calibrates ? ", half of all; " : "");
  if (calibrates)
    uses += strCat("calibration reads ", windowsOfCalibration(request), ", and the search needs ",
                   kLeastWindows, " others");
  return invalidInput("--self-text ", request.selfTextDocuments, ", expected --self-text ", least,
                      " or more: ", uses, ". Hundreds give a narrower bound");
}

bool isPossibleTarget(double target, LossMetric metric) {
  return target > 0 && (isOfItems(metric) ? target < 1 : target <= 100);
}

Status checkQuantileTarget(const QuantileLoss &target, LossMetric metric) {
  if (isOfItems(metric))
    return invalidInput("--accuracy-quantile with --metric ", metricName(metric),
                        ", expected a metric of documents: perplexity, kl or top1. An item loses "
                        "at most its points, and --accuracy-loss bounds their mean");
  if (!(target.fraction > 0 && target.fraction < 1))
    return invalidInput("--accuracy-quantile for a fraction of ", target.fraction,
                        ", expected more than 0 and less than 1");
  if (!isPossibleTarget(target.loss, metric))
    return invalidInput("--accuracy-quantile with a loss of ", target.loss,
                        ", expected more than 0 and at most 100");
  return {};
}

Result<AccurateCompileRequest> requestOfImages(AccurateCompileRequest request,
                                               const std::string &model) {
  if (request.calibrationTexts.empty())
    return invalidInput(request.checkpointDirectory, ": found a vision model (", model,
                        "), expected --calibration-images DIR, or --no-calibration");
  if (request.hasTarget() && request.metric != LossMetric::kAccuracy)
    return invalidInput(request.checkpointDirectory, ": found a vision model (", model,
                        "), expected --metric accuracy and --eval-images DIR with a target");
  request.readsImages = true;
  request.amounts.windowTokens = kImageWindowTokens;
  return request;
}

Status checkAccurateRequest(const AccurateCompileRequest &request) {
  MOERT_RETURN_IF_ERROR(checkSelfText(request));
  if (request.target && !isPossibleTarget(*request.target, request.metric))
    return isOfItems(request.metric) && *request.target >= 1
               ? invalidInput("an accuracy loss of all points in ", metricName(request.metric),
                              " or more, expected less than 100%")
               : invalidInput("an accuracy loss of ", *request.target,
                              ", expected more than 0 and at most 100");
  if (request.quantileTarget)
    MOERT_RETURN_IF_ERROR(checkQuantileTarget(*request.quantileTarget, request.metric));
  if (request.target && isOfItems(request.metric) && request.acceptanceTexts.empty())
    return invalidInput("--metric ", metricName(request.metric), " needs ",
                        request.metric == LossMetric::kAccuracy
                            ? "--eval-images: folders with a folder of images for each class"
                            : "--eval-text: its items, one JSON object a line");
  MOERT_RETURN_IF_ERROR(checkDocumentSeparator(request.documentSeparator));
  // Calibration reads them a second time.
  for (const std::string &path : request.calibrationTexts)
    if (std::error_code ignored; path == "-" || (std::filesystem::exists(path, ignored) &&
                                                 !std::filesystem::is_regular_file(path, ignored) &&
                                                 !std::filesystem::is_directory(path, ignored)))
      return invalidInput(inputName(path), " is no regular file, expected one for calibration");
  if (request.calibrationTexts.empty() && request.profilePath.empty() &&
      !calibratesOnSelfText(request))
    return request.hasTarget()
               ? invalidInput(request.target ? "--accuracy-loss" : "--accuracy-quantile",
                              " needs text: --self-text 400 lets the checkpoint write it, "
                              "--calibration-text FILE takes yours, and so does --calibration "
                              "PROFILE with --eval-text FILE")
               : invalidInput("--quantizer ", nameOf(request.method),
                              " needs --calibration-text, --self-text or --calibration; nearest "
                              "needs none");
  if (request.hasTarget() && request.calibrationTexts.empty() && request.acceptanceTexts.empty() &&
      request.selfTextDocuments == 0)
    return invalidInput("--calibration without --calibration-text needs --eval-text: there is no "
                        "text to set aside");
  if (!request.modulePath.empty() && request.profilePath.empty())
    return invalidInput(
        "--save-module without --calibration, expected both with --accuracy-loss or ",
        "a --quantizer: the module names the profile that its experts are "
        "quantized with. --no-calibration needs neither");
  std::vector<std::string> inputs = request.calibrationTexts;
  inputs.insert(inputs.end(), request.acceptanceTexts.begin(), request.acceptanceTexts.end());
  inputs.push_back(request.profilePath);
  inputs.push_back(request.passes.device);
  MOERT_RETURN_IF_ERROR(WorkDirectory::checkHoldsNone(request.outputPath, inputs));
  if (!request.modulePath.empty())
    MOERT_RETURN_IF_ERROR(checkReplacesNone(request.modulePath, inputs));
  return checkReplacesNone(request.outputPath, inputs);
}

} // namespace moec
