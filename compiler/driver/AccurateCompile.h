// Accuracy as a contract: from a checkpoint and the loss that is allowed to an artifact of the
// fewest bytes whose measured loss is within it.
//
//   reference -> calibration profile -> pool of quantized experts -> search -> artifact
//
// Everything but the last lies in OUT.moe.work until the artifact is done.
#pragma once

#include "compiler/calibrate/Calibrate.h"
#include "compiler/driver/Compile.h"
#include "compiler/plan/WidthSearch.h"
#include "compiler/quantize/QuantizeExpert.h"
#include "compiler/search/SearchTexts.h"
#include "runtime/engine/SampleScore.h"

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
  moert::LossMetric metric = moert::LossMetric::kPerplexity; // None of items.
  std::optional<uint32_t> bits;      // Of all experts; absent: searched for.
  bool areResidentBitsChosen = true; // Otherwise passes.residentBits.
  SolverChoice solver = SolverChoice::kAuto;
  /// Measured on the bundled model, GPTQ has the least divergence at every width: see README.
  QuantizeMethod method = QuantizeMethod::kGptq;
  /// What calibration and the search see; the profile, if there is one, stands in for calibration,
  /// and without texts the search measures on what it has of them.
  std::vector<std::string> calibrationTexts;
  std::string profilePath;
  /// What the loss is accepted on; without any, windows of the calibration texts are set aside.
  std::vector<std::string> acceptanceTexts;
  uint64_t calibrationTokens = kCalibrationTokens;
  uint64_t seed = 0;
  TextAmounts amounts;
  unsigned threads = 1;
  bool resume = false;
};

/// Writes request.outputPath, whole or not at all; the same bytes whatever the threads and the
/// interruptions. Interrupted, or failed because the target is out of reach, it keeps the work
/// directory, from which `resume` goes on, with another target too; otherwise it leaves nothing.
/// A target out of reach is kFailed, and its message names the best that was found.
moert::Status compileAccurately(const AccurateCompileRequest &request, const Session &session);

} // namespace moec
