// What a search for widths came to: as the artifact carries it, and in words.
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

/// All that the following say something of. Borrows it.
struct SearchResults {
  const AccurateCompileRequest &request;
  const CalibrationInfo &calibration;
  const SearchWindows &windows;
  std::span<const SearchText> acceptedOn; // The texts of windows.acceptance, or the items' files.
  const AcceptanceItems *acceptanceItems; // Null where the metric is not of items.
  const WidthItems &items;
  const WidthSearchOutcome &outcome;
  const AcceptanceScores &acceptance; // Of the best.
  uint32_t compileNumber;             // Of this checkpoint on these texts, from 1.
  uint64_t windowsEvaluated;
};

/// For the artifact of an outcome that is met.
moert::Measured measuredOf(const SearchResults &results);

/// What was accepted, and how it came to be chosen.
std::string resultText(const SearchResults &results);

/// Of an outcome that is not met: what was found, and which target would be met or what else would
/// help, going on from the work directory.
moert::Status outOfReach(const SearchResults &results, const std::string &workDirectory);

} // namespace moec
