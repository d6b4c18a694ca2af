// The widths that an expert may have in a compilation.
#pragma once

#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/pool/ExpertWidth.h"

#include <vector>

namespace moec {

/// By descending mean, those with the same gate and up together; a single one where it is given.
///
/// With error feedback the down projection may be 2 bits wider than gate and up of 4, 3 or 2 bits:
/// on real weights that takes 7 to 12% fewer bytes at equal divergence
/// (docs/measurements/quantizers.md). A difference of 1 bit gains less there. The methods of papers
/// keep one width for an expert.
std::vector<ExpertWidth> searchedWidths(const AccurateCompileRequest &request);

} // namespace moec
