// The results of a search for widths: as stored in the artifact, and as text.
#pragma once

#include "compiler/accuracy/AcceptanceItems.h"
#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/accuracy/WidthItems.h"
#include "compiler/plan/WidthSearch.h"
#include "compiler/profile/CalibrationProfile.h"
#include "compiler/search/ArtifactJudge.h"
#include "compiler/search/SearchTexts.h"
#include "runtime/evaluation/SampleScore.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <span>
#include <string>

namespace moec {

/// Input of the functions below. Borrows its parts.
struct SearchResults {
  const AccurateCompileRequest &request;
  const CalibrationInfo &calibration;
  const SearchWindows &windows;
  std::span<const SearchText> acceptedOn; // The texts of windows.acceptance, or the items' files.
  const AcceptanceItems *acceptanceItems; // Null where the metric is not of items.
  const WidthItems &items;
  const WidthSearchOutcome &outcome;
  const AcceptanceScores &acceptance; // Scores of the best assignment.
  uint32_t compileNumber;             // Counts this checkpoint's compiles on these texts, from 1.
  uint64_t windowsEvaluated;
};

/// For the artifact; the outcome meets the target.
moert::Measured measuredOf(const SearchResults &results);

/// Describes the accepted assignment and how it was chosen.
std::string resultText(const SearchResults &results);

/// The error for an outcome that misses the target: the best found, and the target that would be
/// met or what else would help when the work directory is resumed.
moert::Status outOfReach(const SearchResults &results, const std::string &workDirectory);

} // namespace moec
