// The units of acceptance texts that calibration and the search have not read. Compiling and
// replanning to a target choose their units here.
#pragma once

#include "compiler/profile/SeenText.h"
#include "runtime/evaluation/TextWindows.h"

#include <cstddef>
#include <span>
#include <vector>

namespace moec {

/// The windows of a unit.
struct UnitPlace {
  size_t text, firstWindow, windows;
};

/// Every unit of which `seen` overlaps no window, in the order of the texts. A document that
/// calibration or the search has read in part is not an independent test, and neither is a copy of
/// a unit.
std::vector<UnitPlace> freeUnits(std::span<const moert::TextWindows *const> texts,
                                 const SeenText &seen);

} // namespace moec
