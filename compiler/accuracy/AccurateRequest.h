// The request of a compilation to an accuracy target.
#pragma once

#include "compiler/calibrate/Calibrate.h"
#include "compiler/plan/WidthSearch.h"
#include "compiler/quantize/QuantizeExpert.h"
#include "compiler/search/AcceptanceTarget.h"
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
  /// Fixed widths, groups, budgets.
  mlir::moe::CompileOptions passes;
  /// The allowed loss, as defined by lossOf(), and that of a quantile of the documents. Without
  /// either experts are quantized at their given width with `method`, and the loss is measured
  /// quickly, but not with a profile alone.
  std::optional<double> target;
  std::optional<moert::QuantileLoss> quantileTarget; // Not for items.
  moert::LossMetric metric = moert::LossMetric::kPerplexity;
  /// How prompts are made from items, where the metric is of items.
  moert::ChoiceBy choiceBy = moert::ChoiceBy::kLetter;
  moert::AnswerOptions answers;
  std::optional<uint32_t> bits;      // Width of all experts; absent: searched for.
  bool isWidthRaised = false;        // More than `bits` where the quick loss misses its aim.
  bool areResidentBitsChosen = true; // Otherwise passes.residentBits.
  SolverChoice solver = SolverChoice::kAuto;
  /// On the bundled model, GPTQ has the smallest measured divergence at every width: see README.
  QuantizeMethod method = QuantizeMethod::kGptq;
  /// The texts of calibration and search. A profile replaces calibration; without texts, the search
  /// measures on the tokens in the profile.
  std::vector<std::string> calibrationTexts;
  std::string profilePath;
  /// The texts, or items where the metric is of items, of the acceptance tests. Empty: windows of
  /// the calibration texts are set aside.
  std::vector<std::string> acceptanceTexts;
  /// Documents that the checkpoint writes in place of missing texts: half for calibration and
  /// search, half for the acceptance tests, or all for one of them. 0: none.
  uint64_t selfTextDocuments = 0;
  std::string documentSeparator = std::string(moert::kDocumentSeparator); // In both kinds of texts.
  bool readsImages = false; // Folders (LabelledImages.h) in place of texts: a vision model.
  uint64_t calibrationTokens = kCalibrationTokens;
  uint64_t seed = 0;
  std::string acceptanceLogPath; // Empty: defaultAcceptanceLog().
  std::string modulePath;        // Where the planned module is saved too; empty: nowhere.
  uint32_t checkedEstimates = 0; // Experts that are also measured alone.
  TextAmounts amounts;
  unsigned threads = 1;
  bool resume = false;
  bool restart = false;           // Removes what an interrupted command left; not with resume.
  std::vector<std::string> notes; // Lines for the user, once the inputs have been accepted.

  bool hasTarget() const { return target || quantileTarget; }
  AcceptanceTarget acceptanceTarget() const { return {target, quantileTarget}; }
};

/// More than 0 and at most 100 (10,000%); of the points of items, less than all.
bool isPossibleTarget(double target, moert::LossMetric metric);

/// Refuses a metric of items, and numbers out of range.
moert::Status checkQuantileTarget(const moert::QuantileLoss &target, moert::LossMetric metric);

/// True if a step executes the checkpoint; with a profile alone none does.
bool hasReference(const AccurateCompileRequest &request);
/// Whether the artifact gets a quick loss. With a profile alone moec emit has to write the same
/// bytes.
bool hasQuickLoss(const AccurateCompileRequest &request);
/// Whether the profile keeps the rows of all layers: experts may be quantized at another width than
/// the first.
bool keepsProfileRows(const AccurateCompileRequest &request);

/// Self-written documents serve whichever of the two has no text or profile of its own.
bool calibratesOnSelfText(const AccurateCompileRequest &request);
bool acceptsOnSelfText(const AccurateCompileRequest &request);

/// Documents that the checkpoint writes for calibration and the search, and for the acceptance.
struct SelfWritten {
  uint64_t calibrated = 0, accepted = 0;
};

SelfWritten selfWrittenOf(const AccurateCompileRequest &request);

/// The request for a vision model, which reads images. Refuses texts, and a loss that is measured
/// on text.
moert::Result<AccurateCompileRequest> requestOfImages(AccurateCompileRequest request,
                                                      const std::string &model);

/// Refuses contradictory options, and inputs that the output or its work directory would replace.
/// Does not read files.
moert::Status checkAccurateRequest(const AccurateCompileRequest &request);

} // namespace moec
