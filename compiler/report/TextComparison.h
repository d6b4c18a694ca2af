// A run's text beside the calibration text: both replayed with the run's plan, disk and pool from
// the run's start, with as many prompt and decoded tokens. A run that begins with an empty cache is
// so compared with calibration text that does too.
#pragma once

#include "compiler/report/RunSimulation.h"

#include <optional>
#include <string>

namespace moec {

struct TextComparison {
  uint64_t tokens = 0;        // The run's first decoded tokens, and as many in each part.
  uint32_t parts = 0;         // The calibration text's, each from an empty cache.
  Simulated run, calibration; // The second is the mean of the parts.
  double leastHitRate = 0;    // The smallest one among the parts.
};

/// Parts of the text held out from planning, as far as it is long enough. Absent without a
/// calibration trace.
moert::Result<std::optional<TextComparison>> compareTexts(const RunSimulation &simulation);

/// What the run's text costs beside the calibration text: it may hit more, and then saves time.
std::string differenceText(const TextComparison &text);

} // namespace moec
