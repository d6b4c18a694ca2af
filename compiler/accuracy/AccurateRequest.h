// What a compilation to an accuracy target is asked for.
#pragma once

#include "compiler/calibrate/Calibrate.h"
#include "compiler/plan/WidthSearch.h"
#include "compiler/quantize/QuantizeExpert.h"
#include "compiler/search/SearchTexts.h"
#include "passes/Pipeline.h"
#include "runtime/evaluation/EvaluationSet.h"

#include <optional>
#include <string>
#include <vector>

namespace moec {

struct AccurateCompileRequest {
  std::string checkpointDirectory;
  std::string outputPath;
  /// Widths that are not searched for, groups, budgets.
  mlir::moe::CompileOptions passes;
  /// The loss that is allowed, as lossOf() has it. Absent: experts are quantized at their given
  /// width with `method`, and nothing is measured.
  std::optional<double> target;
  moert::LossMetric metric = moert::LossMetric::kPerplexity;
  /// How items are put to the models, where the metric is of items.
  moert::ChoiceBy choiceBy = moert::ChoiceBy::kLetter;
  moert::AnswerOptions answers;
  std::optional<uint32_t> bits;      // Of all experts; absent: searched for.
  bool areResidentBitsChosen = true; // Otherwise passes.residentBits.
  SolverChoice solver = SolverChoice::kAuto;
  /// Measured on the bundled model, GPTQ has the least divergence at every width: see README.
  QuantizeMethod method = QuantizeMethod::kGptq;
  /// What calibration and the search see; the profile, if there is one, stands in for calibration,
  /// and without texts the search measures on what it has of them.
  std::vector<std::string> calibrationTexts;
  std::string profilePath;
  /// What the loss is accepted on: texts, or items where the metric is of items; without any,
  /// windows of the calibration texts are set aside.
  std::vector<std::string> acceptanceTexts;
  /// Documents that the checkpoint writes for what has no text: half for calibration and search,
  /// half for the acceptance, or all for one of them. 0: none.
  uint64_t selfTextDocuments = 0;
  std::string documentSeparator = std::string(moert::kDocumentSeparator); // Of both kinds of texts.
  uint64_t calibrationTokens = kCalibrationTokens;
  uint64_t seed = 0;
  std::string acceptanceLogPath; // Empty: defaultAcceptanceLog().
  uint32_t checkedEstimates = 0; // Experts that are also measured alone.
  TextAmounts amounts;
  unsigned threads = 1;
  bool resume = false;
};

/// What self-written documents are for: what has no text or profile of its own.
bool calibratesOnSelfText(const AccurateCompileRequest &request);
bool acceptsOnSelfText(const AccurateCompileRequest &request);

/// Refuses what contradicts itself, and inputs that the output or its work directory would replace.
/// Files are not read.
moert::Status checkAccurateRequest(const AccurateCompileRequest &request);

} // namespace moec
