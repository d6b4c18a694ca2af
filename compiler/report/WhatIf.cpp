#include "compiler/report/WhatIf.h"

#include "compiler/inspection/Inspect.h"
#include "compiler/inspection/InspectSections.h"
#include "compiler/report/Advise.h"
#include "compiler/report/Predictor.h"
#include "compiler/report/ReportFacts.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/policy/CacheAllotment.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

double measuredBytesPerToken(const RunRecord &run) {
  return double(run.decode.sum().bytesRead) / double(run.decode.steps);
}

double measuredTokensPerSecond(const RunRecord &run) {
  return 1e9 * static_cast<double>(run.decode.steps) / static_cast<double>(run.decode.wallNs);
}

uint64_t fixedBytes(const RunSimulation &simulation) {
  const RunFacts &facts = simulation.run().facts;
  const uint64_t pool = facts.poolPages * simulation.inputs().artifact.pageBytes;
  return facts.accountedBytes - std::min(facts.accountedBytes, pool);
}

uint64_t pagesForFraction(const RunSimulation &simulation, double fraction) {
  const CacheShape shape = shapeOf(simulation.problem());
  const double all = static_cast<double>(largestPoolPages(shape));
  return std::max(smallestPoolPages(shape), static_cast<uint64_t>(std::llround(fraction * all)));
}

std::string shownRate(double bytesPerSecond) {
  return shownText(bytesPerSecond, Unit::kBytesPerSecond);
}

namespace {

constexpr double kBudgetFractions[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
constexpr double kRateFactors[] = {0.25, 0.5, 1, 2, 4, 8}, kLatencyFactors[] = {0.25, 1, 4};
constexpr double kWidths[] = {8, 6, 5, 4, 3, 2};

/// Asks one question after the other; borrows its arguments.
class Questions {
public:
  Questions(const RunSimulation &of, const Predictor &with) : simulation(of), predictor(with) {}

  Result<WhatIf> ask() {
    MOERT_RETURN_IF_ERROR(askBudgets());
    MOERT_RETURN_IF_ERROR(askDisks());
    MOERT_RETURN_IF_ERROR(askWidths());
    MOERT_RETURN_IF_ERROR(askCandidates());
    return std::move(answers);
  }

private:
  Status askBudgets();
  Status askDisks();
  Status askWidths();
  Status askCandidates();
  std::optional<uint64_t> pagesBeside(const MeasuredCandidate &candidate,
                                      const MeasuredCandidate &chosen) const;

  const RunSimulation &simulation;
  const Predictor &predictor;
  WhatIf answers;
};

Status Questions::askBudgets() {
  const uint64_t pageBytes = simulation.inputs().artifact.pageBytes;
  std::vector<RunSimulation::Change> changes;
  for (double fraction : kBudgetFractions) {
    const uint64_t pages = pagesForFraction(simulation, fraction);
    if (!changes.empty() && pages == changes.back().poolPages)
      continue; // Less than a record.
    changes.push_back({.poolPages = pages});
    answers.budgets.push_back({fraction, fixedBytes(simulation) + pages * pageBytes, {}});
  }
  MOERT_ASSIGN_OR_RETURN(const std::vector<Predicted> predicted, predictor.predictAll(changes));
  for (size_t i = 0; i < predicted.size(); ++i)
    answers.budgets[i].predicted = predicted[i];
  double best = 0;
  for (const BudgetPoint &point : answers.budgets)
    best = std::max(best, point.predicted.tokensPerSecond);
  while (answers.budgets[answers.knee].predicted.tokensPerSecond < kNearBest * best)
    ++answers.knee;
  return {};
}

Status Questions::askDisks() {
  std::vector<RunSimulation::Change> changes;
  for (double latency : kLatencyFactors)
    for (double rate : kRateFactors) {
      changes.push_back({.readRate = rate, .readLatency = latency});
      answers.disks.push_back({rate, latency, rate * simulation.disk().bytesPerSecond, {}});
    }
  MOERT_ASSIGN_OR_RETURN(const std::vector<Predicted> predicted, predictor.predictAll(changes));
  for (size_t i = 0; i < predicted.size(); ++i)
    answers.disks[i].predicted = predicted[i];
  return {};
}

/// Mean bits of an expert's weights, without scales and with them.
std::pair<double, double> meanBits(const Artifact &artifact) {
  double nominal = 0, stored = 0, experts = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts) {
      nominal += widthOf(expert).meanBits();
      stored += bitsPerWeight(layer, expert);
      ++experts;
    }
  return {nominal / experts, stored / experts};
}

Status Questions::askWidths() {
  const auto [nominal, stored] = meanBits(simulation.inputs().artifact);
  std::vector<RunSimulation::Change> changes;
  for (double bits : kWidths) {
    if (bits > nominal - 0.5)
      continue;
    const double factor = (bits + stored - nominal) / stored;
    changes.push_back({.expertBytes = factor});
    answers.widths.push_back({bits, factor, {}});
  }
  MOERT_ASSIGN_OR_RETURN(const std::vector<Predicted> predicted, predictor.predictAll(changes));
  for (size_t i = 0; i < predicted.size(); ++i)
    answers.widths[i].predicted = predicted[i];
  return {};
}

/// A loss, or the divergence where the search did not measure the loss: what orders candidates.
double lossOf(const MeasuredCandidate &candidate) {
  return candidate.loss.value_or(candidate.klNats);
}

/// The run's pool with the candidate's resident weights instead of the chosen one's; absent where
/// it has no room for an expert.
std::optional<uint64_t> Questions::pagesBeside(const MeasuredCandidate &candidate,
                                               const MeasuredCandidate &chosen) const {
  const uint64_t pageBytes = simulation.inputs().artifact.pageBytes;
  const uint64_t pages = simulation.poolPages();
  if (candidate.residentBytes <= chosen.residentBytes)
    return pages + (chosen.residentBytes - candidate.residentBytes) / pageBytes;
  const uint64_t more = divideUp(candidate.residentBytes - chosen.residentBytes, pageBytes);
  const uint64_t least = smallestPoolPages(shapeOf(simulation.problem()));
  return pages >= more + least ? std::optional(pages - more) : std::nullopt;
}

Status Questions::askCandidates() {
  const std::optional<Measured> &measuredFacts = simulation.inputs().artifact.measured;
  if (!measuredFacts)
    return {};
  const std::vector<MeasuredCandidate> &all = measuredFacts->candidates;
  const auto chosen = std::ranges::find_if(all, &MeasuredCandidate::isChosen);
  if (chosen == all.end() || chosen->expertBytes == 0)
    return {};
  std::vector<RunSimulation::Change> changes;
  std::vector<size_t> held; // The candidates of these changes.
  for (size_t i = 0; i < all.size(); ++i) {
    CandidatePoint &point = answers.candidates.emplace_back();
    point.candidate = i;
    point.bytesFactor =
        static_cast<double>(all[i].expertBytes) / static_cast<double>(chosen->expertBytes);
    point.bytes = all[i].expertBytes + all[i].residentBytes;
    point.isBest = std::ranges::none_of(all, [&](const MeasuredCandidate &other) {
      const uint64_t bytes = other.expertBytes + other.residentBytes;
      return (bytes < point.bytes && lossOf(other) <= lossOf(all[i])) ||
             (bytes == point.bytes && lossOf(other) < lossOf(all[i]));
    });
    const std::optional<uint64_t> pages = pagesBeside(all[i], *chosen);
    if (!pages || !simulation.holds(point.bytesFactor, *pages))
      continue;
    changes.push_back({.poolPages = pages, .expertBytes = point.bytesFactor});
    held.push_back(i);
  }
  MOERT_ASSIGN_OR_RETURN(const std::vector<Predicted> predicted, predictor.predictAll(changes));
  for (size_t i = 0; i < held.size(); ++i)
    answers.candidates[held[i]].predicted = predicted[i];
  std::ranges::stable_sort(answers.candidates, {}, &CandidatePoint::bytes);
  return {};
}

} // namespace

Result<WhatIf> askWhatIf(const RunSimulation &simulation, const Session &session) {
  const Predictor predictor(simulation, session);
  MOERT_ASSIGN_OR_RETURN(WhatIf answers, Questions(simulation, predictor).ask());
  MOERT_RETURN_IF_ERROR(advise(simulation, predictor, session, answers));
  return answers;
}

} // namespace moec
