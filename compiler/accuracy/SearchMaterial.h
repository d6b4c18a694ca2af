// The stage of a compilation to an accuracy target that divides its texts among search and
// acceptance, and takes the probability of error that the acceptance tests may use.
#pragma once

#include "compiler/accuracy/CompileInputs.h"
#include "compiler/search/AcceptanceTurn.h"
#include "compiler/session/WorkDirectory.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

struct SearchMaterial {
  SearchWindows windows;
  std::vector<SearchText> acceptedOn; // The texts of windows.acceptance, or the items' files.
  AcceptanceItems *items = nullptr;   // Borrowed. Null where the metric is not of items.
  const moert::LabelledImages *images = nullptr; // The windows' own. Borrowed. Null for text.
  std::string moreWindows;                       // The options that give the search more windows.
  uint64_t fingerprint = 0; // Hash of all that decides a measurement, except the assignment.

  /// Windows or items of an acceptance test.
  uint64_t acceptedCount() const { return items ? items->kept.size() : windows.acceptance.windows; }
};

/// For a request with a target. Borrows the items of the texts. Refuses too few windows, units or
/// items that calibration has not read.
moert::Result<SearchMaterial> chooseSearchMaterial(const AccurateCompileRequest &request,
                                                   const CheckpointHash &checkpoint,
                                                   const CompileTexts &texts,
                                                   const CalibrationInfo &info,
                                                   const Session &session);

/// The windows of calibration are known before it runs. Refuses what chooseSearchMaterial() and
/// takeAcceptanceLevels() would, without adding to the record of tests.
moert::Status checkSearchMaterial(const AccurateCompileRequest &request,
                                  const CompileInputs &inputs, const CompileTexts &texts);

/// Takes the compile's turn (AcceptanceTurn.h). deviceHash: CompileInputs::deviceHash. Keeps the
/// work directory and refuses if earlier compiles have used up the documents' probability of error,
/// or leave so little of it that no result on as many items could meet the target.
moert::Result<AcceptanceTurn> takeAcceptanceLevels(const AccurateCompileRequest &request,
                                                   const CheckpointHash &checkpoint,
                                                   uint64_t deviceHash,
                                                   const SearchMaterial &material,
                                                   WorkDirectory &work, const Session &session);

} // namespace moec
