// The stage of a compilation to an accuracy target that divides its texts among search and
// acceptance, and takes the probability of error that the acceptance tests may use.
#pragma once

#include "compiler/accuracy/CompileInputs.h"
#include "compiler/plan/AcceptanceTests.h"
#include "compiler/session/WorkDirectory.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moec {

struct SearchMaterial {
  SearchWindows windows;
  std::vector<SearchText> acceptedOn;     // The texts of windows.acceptance, or the items' files.
  std::unique_ptr<AcceptanceItems> items; // Null where the metric is not of items.
  std::string moreWindows;                // The options that give the search more windows.
  uint64_t fingerprint = 0; // Hash of all that decides a measurement, except the assignment.

  uint64_t searchWindows() const { return windows.probe.windows + windows.rest.windows; }
  /// Windows or items of an acceptance test.
  uint64_t acceptedCount() const { return items ? items->kept.size() : windows.acceptance.windows; }
};

/// For a request with a target. Refuses too few windows, units or items that calibration has not
/// read.
moert::Result<SearchMaterial> chooseSearchMaterial(const AccurateCompileRequest &request,
                                                   const CheckpointHash &checkpoint,
                                                   CompileTexts texts, const CalibrationInfo &info,
                                                   const Session &session);

struct AcceptanceTurn {
  uint32_t compile = 1; // Counts the compiles of the checkpoint on these texts.
  AcceptanceLevels levels;
};

/// Adds the compile to the record of tests (AcceptanceLog.h). deviceHash:
/// CompileInputs::deviceHash. Keeps the work directory and refuses
/// if earlier compiles have used up the texts' probability of error.
moert::Result<AcceptanceTurn> takeAcceptanceLevels(const AccurateCompileRequest &request,
                                                   const CheckpointHash &checkpoint,
                                                   uint64_t deviceHash,
                                                   const SearchMaterial &material,
                                                   WorkDirectory &work, const Session &session);

} // namespace moec
