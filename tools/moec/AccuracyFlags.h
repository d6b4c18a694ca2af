// Options of moec compile for the accuracy target and for the data it is measured on.
#pragma once

#include "compiler/accuracy/AccurateCompile.h"

#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace moec::cli {

/// Filled in while the command line is parsed.
struct AccuracyFlags {
  std::string loss, quantile, metric = "perplexity", quantizer = "auto", solver = "auto";
  std::vector<std::string> calibrationTexts, acceptanceTexts;
  // Between documents of text files.
  std::string documentSeparator = std::string(moert::kDocumentSeparator);
  bool isSeparatorGiven = false;
  std::string profile;
  // How items are presented to the models; empty or 0: not given.
  std::string choiceBy, answerAfter;
  std::vector<std::string> stopTexts;
  uint32_t maxTokens = 0;
  std::optional<uint64_t> calibrationTokens, seed;
  std::string acceptanceLog;
  uint64_t selfText = 0;
  bool isUncalibrated = false; // --no-calibration.
  uint32_t searchWindows = TextAmounts().searchWindows;
  uint32_t checkedEstimates = 0;
  std::vector<const CLI::Option *> ofTarget; // Options that are for a target alone.

  /// Whether any option requires compileAccurately(), rather than rounding to nearest at given
  /// widths.
  bool isAsked() const { return !askedBy().empty(); }
  /// The first such option, for messages; empty if there is none.
  std::string askedBy() const;
};

void addAccuracyFlags(CLI::App &command, AccuracyFlags &flags);

/// "2%" or "0.02"; for KL a number of nats, without a percent sign.
moert::Result<double> parseLoss(const std::string &text, moert::LossMetric metric);

/// "90%:3%": at least 90% of the documents lose at most 3% each; the loss as parseLoss() reads it.
moert::Result<moert::QuantileLoss> parseQuantile(const std::string &text, moert::LossMetric metric);

/// Both of a command's options; an empty text: not given.
moert::Status parseTarget(const std::string &loss, const std::string &quantile,
                          moert::LossMetric metric, AcceptanceTarget &target);

/// Refuses options that configure the texts when no text is given, and those of a target without
/// one.
moert::Status checkTextOptions(const AccuracyFlags &flags);

/// Copies the flags into the request.
moert::Status takeAccuracyFlags(const AccuracyFlags &flags, AccurateCompileRequest &request);

} // namespace moec::cli
