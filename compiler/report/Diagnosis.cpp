#include "compiler/report/Diagnosis.h"

#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/BeladyBound.h"
#include "compiler/plan/DeviceTimes.h"
#include "compiler/report/ReportFacts.h"
#include "runtime/base/Size.h"

#include <algorithm>
#include <array>

using namespace moert;

namespace moec {

std::string_view limitName(Limit limit) {
  constexpr std::array<std::string_view, 4> kNames = {"disk", "text", "memory", "compute"};
  return kNames[static_cast<size_t>(limit)];
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
/// A disk at less than this fraction of its profile's rate is slower than profiled: rates of one
/// disk vary by 30% from day to day (docs/measurements/presets.md).
constexpr double kSlowDisk = 0.7;
/// A run that waits for less than this fraction of its time is limited by computing.
constexpr double kWaits = 0.15;

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
    std::ranges::stable_sort(found.causes, std::greater<>(), &Cause::lostNs);
    addLimit();
    return std::move(found);
  }

private:
  void divideTime();
  Status computeBounds();
  Status checkDisk();
  Status checkText();
  void addLimit();
  double lost(double changedNs) const {
    const double base = simulation.base().tokenNs;
    return found.tokenNs * (base - changedNs) / base;
  }
  std::string waitsText() const {
    return strCat(percent(found.waitNs / found.tokenNs), " of a token waits for reads");
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
    if (decode.partNs[i] > 0)
      found.parts.push_back(
          {std::string(kPartNames[i]), static_cast<double>(decode.partNs[i]) / steps});
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
  const BeladyBound bound = beladyBound(decoded, problem.recordBytes, problem.pageBytes,
                                        problem.poolPages, result.heldBefore);
  found.leastBytes =
      static_cast<double>(bound.decodeBytesRead) / static_cast<double>(result.tokenNs.size());
  double best = 0;
  for (const Quantity &rate : problem.reads->bytesPerSecond)
    best = std::max(best, rate.value);
  // Without reads there are neither checksums nor requests.
  const Simulated &base = simulation.base();
  double readingCosts = 0;
  for (const TimePart &part : found.parts)
    if (part.name == "requests" || part.name == "checksums")
      readingCosts += part.ns;
  found.boundNs = std::max(std::max(0.0, base.tokenNs - base.waitNs - readingCosts),
                           found.leastBytes / best * 1e9);
  return {};
}

Status Diagnosing::checkDisk() {
  const FittedDisk &disk = simulation.disk();
  if (!disk.isFitted || disk.profiledBytesPerSecond == 0 ||
      disk.bytesPerSecond > kSlowDisk * disk.profiledBytesPerSecond)
    return {};
  MOERT_ASSIGN_OR_RETURN(
      const Simulated changed,
      simulation.simulate({.readRate = disk.profiledBytesPerSecond / disk.bytesPerSecond}));
  const double lostNs = lost(changed.tokenNs);
  if (lostNs >= kLeastLoss * found.tokenNs)
    found.causes.push_back(
        {Limit::kDisk, lostNs,
         strCat("The disk is slower than its profile: ", waitsText(), ", which come at ",
                shownRate(disk.bytesPerSecond), " where ", simulation.inputs().device->name,
                " has ", shownRate(disk.profiledBytesPerSecond), "; that costs ", msText(lostNs),
                " of ", msText(found.tokenNs), " per token.")});
  return {};
}

Status Diagnosing::checkText() {
  if (!simulation.hasCalibration())
    return {};
  MOERT_ASSIGN_OR_RETURN(const Simulated calibrated,
                         simulation.simulate({.isOnCalibration = true}));
  found.calibrationNs = calibrated.tokenNs;
  found.calibrationHitRate = calibrated.hitRate;
  const double lostNs = lost(calibrated.tokenNs);
  if (lostNs >= kLeastLoss * found.tokenNs && calibrated.hitRate > simulation.base().hitRate)
    found.causes.push_back(
        {Limit::kText, lostNs,
         strCat("This text is unlike the calibration text: ", percent(simulation.base().hitRate),
                " of the experts are in memory when they are needed, on the calibration text ",
                percent(calibrated.hitRate), " with the same plan; that costs ", msText(lostNs),
                " of ", msText(found.tokenNs), " per token.")});
  return {};
}

void Diagnosing::addLimit() {
  const RunFacts &facts = simulation.run().facts;
  const double waits = found.waitNs / found.tokenNs;
  const Simulated &base = simulation.base();
  const std::string reads =
      strCat("the perfect cache of this size would read ", bytesText(found.leastBytes), " of the ",
             bytesText(base.bytesRead), " per token");
  if (waits < kWaits) {
    const auto largest = std::ranges::find_if(
        found.parts, [](const TimePart &part) { return part.name != "waiting for reads"; });
    found.causes.push_back(
        {Limit::kCompute, found.computeNs,
         strCat("Computing limits this run: ", percent(1 - waits), " of a token, most of it ",
                largest->name, " (", percent(largest->ns / found.tokenNs), "); ", percent(waits),
                " waits for reads.")});
    return;
  }
  for (const Advice &advice : whatIf.advice)
    if (advice.change.starts_with("more memory: ")) {
      const double lostNs = lost(advice.predicted.simulated.tokenNs);
      found.causes.push_back(
          {Limit::kMemory, lostNs,
           strCat("The memory budget holds this run back: ", waitsText(), ", as ",
                  formatBytes(facts.budgetBytes), " have room for ",
                  percent(double(facts.poolPages) * double(simulation.inputs().artifact.pageBytes) /
                          double(simulation.inputs().artifact.recordsBytes)),
                  " of the experts and the machine had ", formatBytes(facts.availableBytes), "; ",
                  reads, ".")});
      return;
    }
  found.causes.push_back({Limit::kDisk, found.waitNs,
                          strCat("The disk holds this run back: ", waitsText(), " at ",
                                 shownRate(simulation.disk().bytesPerSecond), "; ", reads, ".")});
}

} // namespace

Result<Diagnosis> diagnose(const RunSimulation &simulation, const WhatIf &whatIf) {
  return Diagnosing(simulation, whatIf).run();
}

} // namespace moec
