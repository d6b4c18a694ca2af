#include "compiler/report/Diagnosis.h"

#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/BeladyBound.h"
#include "compiler/plan/DeviceTimes.h"
#include "compiler/report/ReportFacts.h"
#include "runtime/base/Size.h"

#include <algorithm>
#include <array>
#include <optional>

using namespace moert;

namespace moec {

std::string_view limitName(Limit limit) {
  constexpr std::array<std::string_view, 5> kNames = {"disk", "text", "memory", "start", "compute"};
  return kNames[static_cast<size_t>(limit)];
}

std::vector<Cause> orderedCauses(std::vector<Cause> differences, std::optional<Cause> limit) {
  constexpr double kAlike = 0.9; // Predictions differ from runs by up to about a tenth.
  std::ranges::stable_sort(differences, std::greater<>(), &Cause::costNs);
  if (limit)
    differences.insert(
        std::ranges::find_if(
            differences, [&](const Cause &cause) { return cause.costNs < kAlike * limit->costNs; }),
        *limit);
  return differences;
}

namespace {

std::string percent(double fraction) {
  return shownText(fraction, Unit::kFraction);
}
std::string bytesText(double bytes) {
  return shownText(bytes, Unit::kBytes);
}
std::string msText(double ns) {
  return shownText(ns, Unit::kNs);
}

/// A difference from what was planned has to cost this much of a token to be a cause.
constexpr double kLeastLoss = 0.05;
/// A run that waits for less than this fraction of its time is limited by computing.
constexpr double kWaits = 0.15;
/// First reads are a cause where they are at least this fraction of what was read.
constexpr double kFirstReads = 0.5;

/// Bytes of the experts that steps from `fromStep` on use, and that no earlier step used or held.
double firstUsesOf(const RoutingTrace &trace, size_t fromStep, const HeldExperts &held,
                   std::span<const std::vector<uint64_t>> recordBytes) {
  const size_t layers = trace.layerExperts.size();
  std::vector<std::vector<bool>> isKnown;
  for (uint32_t experts : trace.layerExperts)
    isKnown.emplace_back(experts);
  for (size_t l = 0; l < held.size(); ++l)
    for (uint32_t expert : held[l])
      isKnown[l][expert] = true;
  double bytes = 0;
  for (size_t p = 0; p < trace.passes.size(); ++p) {
    const uint32_t layer = trace.passes[p].layer;
    for (uint32_t expert : trace.demandOf(trace.passes[p]).wanted) {
      if (p >= fromStep * layers && !isKnown[layer][expert])
        bytes += static_cast<double>(recordBytes[layer][expert]);
      isKnown[layer][expert] = true;
    }
  }
  return bytes;
}

/// Compares a run with what it could do; borrows its arguments.
class Diagnosing {
public:
  Diagnosing(const RunSimulation &of, const WhatIf &predictions)
      : simulation(of), whatIf(predictions) {}

  Result<Diagnosis> run() {
    divideTime();
    MOERT_RETURN_IF_ERROR(computeBounds());
    MOERT_RETURN_IF_ERROR(checkDisk());
    MOERT_RETURN_IF_ERROR(checkText());
    found.causes = orderedCauses(found.causes, limitOfRun());
    return std::move(found);
  }

private:
  void divideTime();
  Status computeBounds();
  Status checkDisk();
  Status checkText();
  std::optional<Cause> limitOfRun() const;
  Cause memoryLimit(double lostNs) const;
  double lost(double changedNs) const { return lost(simulation.base().tokenNs, changedNs); }
  double lost(double baseNs, double changedNs) const {
    return found.tokenNs * (baseNs - changedNs) / baseNs;
  }
  std::string waitsText() const {
    return strCat(percent(found.waitNs / found.tokenNs), " of a token waits for");
  }
  std::string costText(double costNs) const {
    return strCat(", which costs ", msText(costNs), " of ", msText(found.tokenNs), " per token.");
  }

  const RunSimulation &simulation;
  const WhatIf &whatIf;
  Diagnosis found;
};

void Diagnosing::divideTime() {
  const PhaseTotals &decode = simulation.run().decode;
  const double steps = static_cast<double>(decode.steps);
  const LayerTotals all = decode.sum();
  found.tokenNs = static_cast<double>(decode.wallNs) / steps;
  found.waitNs = static_cast<double>(all.waitNs) / steps;
  found.computeNs = static_cast<double>(all.computeNs) / steps;
  found.parts.push_back({"waiting for reads", found.waitNs});
  for (size_t i = 0; i < kStepParts; ++i)
    if (decode.partNs[i] > 0) {
      std::string name(kPartNames[i]);
      std::ranges::replace(name, '_', ' ');
      found.parts.push_back({std::move(name), static_cast<double>(decode.partNs[i]) / steps});
    }
  const double rest = found.tokenNs - found.waitNs - found.computeNs;
  found.parts.push_back({"setup of the step", std::max(0.0, rest)});
  std::ranges::stable_sort(found.parts, std::greater<>(), &TimePart::ns);
}

Status Diagnosing::computeBounds() {
  const PlanProblem problem = simulation.problem();
  const size_t fromStep = simulation.firstDecodeStep();
  const PlanSettings settings = simulation.settingsFor(simulation.poolPages());
  MOERT_ASSIGN_OR_RETURN(const TimedResult result,
                         replayInTime(problem, settings, {.fromStep = fromStep}));
  const RoutingTrace &trace = simulation.routes();
  const RoutingTrace decoded =
      partOf(trace, fromStep, trace.passes.size() / trace.layerExperts.size());
  const double tokens = static_cast<double>(result.tokenNs.size());
  found.firstBytes = firstUsesOf(trace, fromStep, result.heldBefore, problem.recordBytes) / tokens;
  const BeladyBound bound = beladyBound(decoded, problem.recordBytes, problem.pageBytes,
                                        problem.poolPages, result.heldBefore);
  found.leastBytes = static_cast<double>(bound.decodeBytesRead) / tokens;
  double demanded = 0;
  for (const RoutingPass &pass : decoded.passes)
    demanded += static_cast<double>(decoded.demandOf(pass).wanted.size());
  found.mostHits = 1 - static_cast<double>(bound.misses) / std::max(1.0, demanded);
  double best = 0;
  for (const Quantity &rate : problem.reads->bytesPerSecond)
    best = std::max(best, rate.value);
  // Without reads there are neither checksums nor requests.
  const Simulated &base = simulation.base();
  double readingCosts = 0;
  for (const TimePart &part : found.parts)
    if (part.name == "requests" || part.name == "checksums")
      readingCosts += part.ns;
  // A miss rule may read less than the perfect cache that waits.
  const double leastNs = simulation.losesDecoding() ? 0 : found.leastBytes / best * 1e9;
  found.boundNs = std::max(std::max(0.0, base.tokenNs - base.waitNs - readingCosts), leastNs);
  return {};
}

Status Diagnosing::checkDisk() {
  const FittedDisk &disk = simulation.disk();
  if (!disk.isSlowerThanProfile())
    return {};
  MOERT_ASSIGN_OR_RETURN(
      const Simulated changed,
      simulation.simulate({.readRate = disk.profiledBytesPerSecond / disk.bytesPerSecond}));
  const double lostNs = lost(changed.tokenNs);
  if (lostNs >= kLeastLoss * found.tokenNs)
    found.causes.push_back(
        {Limit::kDisk, lostNs,
         strCat("The disk is slower than its profile: ", shownRate(disk.bytesPerSecond),
                " instead of ", shownRate(disk.profiledBytesPerSecond), costText(lostNs))});
  return {};
}

/// The run has to hit less than each part of the calibration text, as short parts differ.
Status Diagnosing::checkText() {
  MOERT_ASSIGN_OR_RETURN(found.text, compareTexts(simulation));
  if (!found.text)
    return {};
  const TextComparison &text = *found.text;
  const double lostNs = lost(text.run.tokenNs, text.calibration.tokenNs);
  if (lostNs >= kLeastLoss * found.tokenNs && text.run.hitRate < text.leastHitRate)
    found.causes.push_back(
        {Limit::kText, lostNs,
         strCat("This text is unlike the calibration text: ", percent(text.run.hitRate),
                " hits instead of ", percent(text.calibration.hitRate), costText(lostNs))});
  return {};
}

/// Null: a disk that is slower than its profile is the limit.
std::optional<Cause> Diagnosing::limitOfRun() const {
  const double waits = found.waitNs / found.tokenNs;
  if (waits < kWaits) {
    const auto largest = std::ranges::find_if(
        found.parts, [](const TimePart &part) { return part.name != "waiting for reads"; });
    return Cause{Limit::kCompute, found.computeNs,
                 strCat("Computing limits this run: ", percent(1 - waits),
                        " of a token, most of it ", largest->name, " (",
                        percent(largest->ns / found.tokenNs), "); ", percent(waits),
                        " waits for reads.")};
  }
  // With a miss rule the calibration text is replayed, not from the run's start.
  const Simulated &base = simulation.base();
  const bool hasFirst = base.bytesRead > 0 && !simulation.appliesMissRule();
  const double first = hasFirst ? found.firstBytes / base.bytesRead : 0;
  const double startNs = first >= kFirstReads ? first * found.waitNs : 0;
  const auto memory = std::ranges::find_if(whatIf.advice, [](const Advice &advice) {
    return advice.change.starts_with("more memory: ");
  });
  if (memory != whatIf.advice.end() && lost(memory->predicted.simulated.tokenNs) >= startNs)
    return memoryLimit(lost(memory->predicted.simulated.tokenNs));
  if (startNs > 0)
    return Cause{Limit::kStart, startNs,
                 strCat("The start holds this run back: ", waitsText(), " reads, ", percent(first),
                        " of them first uses of an expert; longer runs read less.")};
  if (std::ranges::find(found.causes, Limit::kDisk, &Cause::limit) != found.causes.end())
    return std::nullopt;
  return Cause{Limit::kDisk, found.waitNs,
               strCat("The disk holds this run back: ", waitsText(), " ",
                      bytesText(measuredBytesPerToken(simulation.run())), " at ",
                      shownRate(simulation.disk().bytesPerSecond), ".")};
}

Cause Diagnosing::memoryLimit(double lostNs) const {
  const RunFacts &facts = simulation.run().facts;
  const Artifact &artifact = simulation.inputs().artifact;
  const double fraction =
      double(facts.poolPages) * double(artifact.pageBytes) / double(fullBytesOf(artifact));
  return {Limit::kMemory, lostNs,
          strCat("The memory budget holds this run back: ", formatBytes(facts.budgetBytes),
                 " hold ", percent(fraction), " of the experts", costText(lostNs))};
}

} // namespace

Result<Diagnosis> diagnose(const RunSimulation &simulation, const WhatIf &whatIf) {
  return Diagnosing(simulation, whatIf).run();
}

} // namespace moec
