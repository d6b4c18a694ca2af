// The results of a search for widths: as stored in the artifact, and as text.
#pragma once

#include "compiler/accuracy/MeasuredSearch.h"
#include "compiler/accuracy/SearchMaterial.h"
#include "compiler/accuracy/WidthItems.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <string>

namespace moec {

/// Input of the functions below. Borrows its parts.
struct SearchResults {
  const AccurateCompileRequest &request;
  const CalibrationInfo &calibration;
  const SearchMaterial &material;
  const MeasuredSearch &search;
  uint32_t compileNumber; // AcceptanceTurn::compile
  const WidthItems &items;
};

/// For the artifact; the outcome meets the target.
moert::Measured measuredOf(const SearchResults &results);

/// Describes the accepted assignment and how it was chosen.
std::string resultText(const SearchResults &results);

/// The error for an outcome that misses the target: the best found, and the target that would be
/// met or what else would help when the work directory is resumed.
moert::Status outOfReach(const SearchResults &results, const std::string &workDirectory);

} // namespace moec
