// Summaries of a search for widths, for people.
#pragma once

#include "compiler/accuracy/WidthItems.h"
#include "compiler/plan/WidthSearch.h"
#include "compiler/search/AcceptanceTurn.h"
#include "compiler/search/ArtifactJudge.h"
#include "runtime/evaluation/SampleScore.h"

#include <optional>
#include <string>

namespace moec {

/// "2.04%", or "0.0512 nats" for KL. States where a loss was cut off (kMostLoss).
std::string formatLoss(double loss, moert::LossMetric metric);

/// A line for each assignment that was measured, the cheapest last, with its expected time where
/// that is known. For a metric of items, which the search does not measure, shows KL only. "-" is a
/// bound that the search's text has too few units for.
std::string measuredTable(const WidthSearchOutcome &outcome, const WidthItems &items,
                          uint64_t expertWeights, moert::LossMetric metric);

/// A line about the order of widths that are searched on too few windows for a bound, and about
/// what gives the search more. helps: SearchMaterial::moreWindows.
std::string fewWindowsText(uint64_t windows, const std::string &helps);

/// "a perplexity loss of at most 2.00%", "at least 90% of units that lose at most 3.00% each in
/// perplexity", or both.
std::string targetText(const AcceptanceTarget &target, moert::LossMetric metric);

/// "at least 90% of units lose at most 2.31% each", or that it takes more units; empty for items.
std::string quantileText(const AcceptanceScores &found, const AcceptanceTarget &target,
                         moert::LossMetric metric);

/// The accepted loss, the test's own bounds, its units, and the spread between them. documents:
/// absent for items.
std::string acceptedText(const AcceptanceScores &found, const AcceptanceTarget &target,
                         std::optional<uint64_t> documents, moert::LossMetric metric);

/// "; ..." if there are too few items for any artifact to be accepted; otherwise empty.
std::string itemsText(const AcceptanceScores &found, moert::LossMetric metric, double target);

/// "8 bits: 12, 4/6 bits: 31, 4 bits: 209, 2 bits: 68": 4/6 for a down projection of 6 bits.
std::string widthCounts(const WidthAssignment &assignment, const WidthItems &items);

} // namespace moec
