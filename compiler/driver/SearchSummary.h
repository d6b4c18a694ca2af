// What a search for widths did, for people.
#pragma once

#include "compiler/driver/WidthItems.h"
#include "compiler/plan/WidthSearch.h"
#include "runtime/engine/SampleScore.h"

#include <string>

namespace moec {

/// "2.04%", or "0.0512 nats" for KL.
std::string formatLoss(double loss, moert::LossMetric metric);

/// A line for each assignment that was measured, the cheapest last.
std::string measuredTable(const WidthSearchOutcome &outcome, const WidthItems &items,
                          uint64_t expertWeights, moert::LossMetric metric);

/// "8 bits: 12, 4 bits: 240, 2 bits: 68".
std::string widthCounts(const WidthAssignment &assignment, const WidthItems &items);

} // namespace moec
