// The first stage of a compilation to an accuracy target: everything that it reads, and the
// refusals that need no computing.
#pragma once

#include "compiler/accuracy/AcceptanceItems.h"
#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/plan/DeviceProfile.h"
#include "compiler/planning/DeviceMemory.h"
#include "compiler/profile/CalibrationProfile.h"
#include "compiler/profile/CheckpointHash.h"
#include "compiler/session/Session.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moec {

/// The calibration images of a vision model.
struct CompileImages {
  moert::LabelledImages all;
  CalibrationImages calibrated; // The search has the others.
};

/// The texts of a compilation, cut into windows; for a vision model, its folders, whose images are
/// the windows and items.
struct CompileTexts {
  std::vector<std::string> calibrationPaths; // Parallel to `calibration`.
  std::vector<SearchText> calibration;       // For calibration and search.
  std::vector<SearchText> acceptance;        // Empty: set aside from `calibration`.
  std::unique_ptr<AcceptanceItems> items;    // Null where the metric is not of items.
  std::unique_ptr<CompileImages> images;     // Null for a model of text.

  const moert::LabelledImages *imagesOrNull() const { return images ? &images->all : nullptr; }
};

struct CompileInputs {
  ImportedModel model;
  CheckpointHash hash;
  std::optional<DeviceProfile> device;         // Absent: none was given.
  uint64_t deviceHash = 0;                     // XXH3-64 of the device's file.
  CompileTexts texts;                          // Without those that the checkpoint is to write.
  std::unique_ptr<CalibrationProfile> profile; // Null: none was given.
};

/// Reads all inputs of a request that checkAccurateRequest() accepts. Refuses unreadable files, too
/// few windows or units, and budgets that the fewest bits exceed. Budgets relative to the experts'
/// bytes get their warnings later, when widths are known.
moert::Result<CompileInputs> readCompileInputs(const AccurateCompileRequest &request,
                                               ImportedModel model, MemoryWarnings &warnings,
                                               const Session &session);

/// Refuses a checkpoint without a tokenizer.
moert::Result<CompileTexts> readCompileTexts(const AccurateCompileRequest &request,
                                             const ImportedModel &model, const Session &session);

/// The profile at `path`. Refuses one of another checkpoint.
moert::Result<std::unique_ptr<CalibrationProfile>> openProfileOf(const CompileInputs &inputs,
                                                                 const std::string &path);

/// Options of a calibration on the texts; without reference and output.
CalibrateOptions calibrateOptions(const AccurateCompileRequest &request, const ImportedModel &model,
                                  const CompileTexts &texts);

/// The texts of the search: those of calibration, or the profile's own tokens without any. Losses
/// on the profile's tokens are a little too small, since the quantizers were fitted to them; the
/// acceptance tests, on other text, correct for it.
std::vector<SearchText> searchTextsOf(const AccurateCompileRequest &request,
                                      const CompileTexts &texts, const CalibrationInfo &info);

/// The request's amounts of text, for its metric.
TextAmounts amountsOf(const AccurateCompileRequest &request);

} // namespace moec
