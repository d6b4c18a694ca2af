#include "compiler/report/Advise.h"

#include "compiler/inspection/Inspect.h"
#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/PlanForecast.h"
#include "compiler/plan/PlanSearch.h"
#include "compiler/plan/PresetRules.h"
#include "compiler/plan/StepCosts.h"
#include "compiler/report/ReportFacts.h"
#include "compiler/report/RunCommand.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

namespace {

/// Adds one kind of advice after the other; borrows its arguments.
class Adviser {
public:
  Adviser(const RunSimulation &of, const Predictor &with, const Session &user, WhatIf &filled)
      : simulation(of), predictor(with), session(user), answers(filled) {}

  Status advise() {
    MOERT_RETURN_IF_ERROR(askThreads());
    MOERT_RETURN_IF_ERROR(askProfiledDisk());
    MOERT_RETURN_IF_ERROR(askPlan());
    adviseMemory();
    adviseDisk();
    adviseWidths();
    rank();
    return {};
  }

private:
  /// What is replayed, for advice.
  std::string routesText() const {
    return simulation.appliesMissRule()
               ? strCat("the calibration text's routes under ", missRuleText(plan().miss))
               : "this run's routes";
  }
  const Plan &plan() const { return planOf(simulation.inputs(), simulation.run()); }
  std::string replanCommand(uint64_t bytes) const;
  std::string planCommand() const;
  std::string memoryCommand(uint64_t bytes) const;
  bool mostlyWaits() const { return simulation.base().waitNs > simulation.base().tokenNs / 2; }

  Status askThreads();
  Status askProfiledDisk();
  Status askPlan();
  void adviseMemory();
  void adviseDisk();
  void adviseWidths();
  bool adviseCandidate();
  void rank();

  const RunSimulation &simulation;
  const Predictor &predictor;
  const Session &session;
  WhatIf &answers;
};

/// As --accuracy-loss takes it, rounded up.
std::string lossOption(const std::string &metric, double loss) {
  if (metric == "kl")
    return fixed(std::ceil(loss * 1e4) / 1e4, 4);
  return fixed(std::ceil(loss * 1e4) / 100, 2) + "%";
}

/// The bound that a target would have to allow, where the search measured a loss.
std::optional<double> boundOf(const MeasuredCandidate &candidate) {
  return candidate.expectedBound ? candidate.expectedBound : candidate.loss;
}

/// With a device profile: its ratio of computing with all cores to the run's threads.
Status Adviser::askThreads() {
  const RunFacts &facts = simulation.run().facts;
  const std::optional<DeviceProfile> &device = simulation.inputs().device;
  if (!device || facts.cores <= facts.threads)
    return {};
  const uint32_t context = static_cast<uint32_t>(facts.promptTokens + facts.generatedTokens / 2);
  const auto computeNs = [&](uint32_t threads) {
    const StepCosts costs = stepCostsOf(simulation.inputs().facts, *device, {threads, context});
    PlanProblem problem = simulation.problem();
    problem.costs = &costs;
    return computeNsPerToken(problem, simulation.firstDecodeStep());
  };
  const double ratio = computeNs(facts.cores) / computeNs(facts.threads);
  MOERT_ASSIGN_OR_RETURN(const Predicted predicted, predictor.predict({.computing = ratio}));
  answers.advice.push_back({strCat(facts.cores, " threads instead of ", facts.threads),
                            runCommand(simulation, {.threads = facts.cores}),
                            "the device profile's rates of one thread and of all", false,
                            Origin::kDerived, predicted});
  return {};
}

/// A disk that was faster when it was profiled can be faster again.
Status Adviser::askProfiledDisk() {
  const FittedDisk &disk = simulation.disk();
  if (!disk.isSlowerThanProfile())
    return {};
  MOERT_ASSIGN_OR_RETURN(
      const Predicted predicted,
      predictor.predict({.readRate = disk.profiledBytesPerSecond / disk.bytesPerSecond}));
  answers.advice.push_back(
      {strCat("the disk at the rate of its profile: ", shownRate(disk.profiledBytesPerSecond),
              " instead of ", shownRate(disk.bytesPerSecond)),
       "",
       strCat(routesText(),
              " with the profile's rate; what slows a disk is another program that reads, "
              "a limit of the container, or heat"),
       false, disk.origin, predicted});
  return {};
}

/// Demands of the part of a trace that a plan is searched on, so that a report takes seconds.
constexpr uint64_t kMostSearchedDemands = 75'000;

RoutingTrace beginningOf(const RoutingTrace &trace) {
  const size_t layers = trace.layerExperts.size(), steps = trace.passes.size() / layers;
  size_t taken = 0;
  for (uint64_t demands = 0; taken < steps && demands < kMostSearchedDemands; ++taken)
    demands = trace.passes[(taken + 1) * layers - 1].end;
  return partOf(trace, 0, taken);
}

std::string Adviser::replanCommand(uint64_t bytes) const {
  return strCat("moec replan ", quotedWord(simulation.inputs().artifactPath), " --memory ",
                sizeOption(bytes), " --context ", simulation.run().facts.contextTokens);
}

/// Measures the machine where no profile of it was given.
std::string Adviser::planCommand() const {
  const ReportInputs &inputs = simulation.inputs();
  const std::string device =
      inputs.devicePath.empty() ? "this.yaml" : quotedWord(inputs.devicePath);
  return strCat(inputs.devicePath.empty() ? strCat("moert probe -o this.yaml --path ",
                                                   quotedWord(inputs.artifactPath), " && ")
                                          : "",
                replanCommand(simulation.run().facts.budgetBytes), " --device ", device,
                " -o NEW.moe");
}

/// The plan that moec replan would find for this budget and the disk of this run.
Status Adviser::askPlan() {
  if (!simulation.hasCalibration()) {
    answers.unsearched = "the artifact has no trace of calibration text";
    return {};
  }
  const RoutingTrace deciding = beginningOf(simulation.deciding());
  PlanProblem problem = simulation.calibrationProblem();
  problem.trace = &deciding;
  Result<SearchedPlan> found =
      searchPlan(problem, {.threads = availableCores(), .progress = {}, .stop = session.stop});
  if (found.status().code() == StatusCode::kInterrupted)
    return found.status();
  if (!found.isOk()) {
    answers.unsearched = found.status().message();
    return {};
  }
  const PlanSettings &settings = found->planned.settings;
  const RunSimulation::Change onCalibration{.isOnCalibration = true};
  const Predictor::Asked both[] = {{onCalibration}, {onCalibration, &settings}};
  MOERT_ASSIGN_OR_RETURN(const std::vector<Simulated> simulated, predictor.simulateAll(both));
  const std::string plan =
      strCat("eviction ", nameOf(settings.rules.eviction), ", ", nameOf(settings.rules.sharing),
             ", ", prefetchesAnything(settings.prefetches) ? "with" : "without", " prefetches");
  answers.advice.push_back(
      {strCat("another plan: ", plan), planCommand(),
       "searched for this pool and this run's disk on a part of the calibration trace, compared on "
       "another",
       false, Origin::kDerived, predictor.anchored(simulated[1], simulated[0])});
  return {};
}

/// A plan whose miss rule changed the run keeps its own cache in more memory: it is made again.
std::string Adviser::memoryCommand(uint64_t bytes) const {
  if (!simulation.isLossy())
    return runCommand(simulation, {.memoryBytes = bytes});
  // A plan of several rules has its rule after the preset's name.
  const std::string name = plan().preset.substr(0, plan().preset.find(' '));
  const Result<Preset> preset = presetOf(name);
  const bool hasOwnRule = preset.isOk() && missRuleOf(*preset) == plan().miss;
  return strCat(replanCommand(bytes), preset.isOk() ? " --preset " + name : "",
                hasOwnRule ? "" : " --miss " + missRuleText(plan().miss),
                " --reference SOURCE.moe --eval-text TEXT -o NEW.moe");
}

void Adviser::adviseMemory() {
  const RunFacts &facts = simulation.run().facts;
  const BudgetPoint *best = nullptr;
  double bestSpeed = 0;
  for (const BudgetPoint &point : answers.budgets)
    if (point.memoryBytes <= facts.availableBytes)
      bestSpeed = std::max(bestSpeed, point.predicted.tokensPerSecond);
  for (const BudgetPoint &point : answers.budgets)
    if (!best && point.memoryBytes > facts.budgetBytes &&
        point.memoryBytes <= facts.availableBytes &&
        point.predicted.tokensPerSecond >= kNearBest * bestSpeed)
      best = &point;
  if (best)
    answers.advice.push_back({strCat("more memory: ", formatBytes(best->memoryBytes),
                                     " instead of ", formatBytes(facts.budgetBytes), ", for ",
                                     fixed(100 * best->expertFraction, 0), "% of the experts"),
                              memoryCommand(best->memoryBytes),
                              strCat(routesText(), " with a larger pool",
                                     mostlyWaits() ? " and its times of computing, which may be "
                                                     "longer than without waits"
                                                   : ""),
                              false, simulation.disk().origin, best->predicted});
  const BudgetPoint &knee = answers.budgets[answers.knee];
  if (knee.memoryBytes > std::max(facts.availableBytes, facts.budgetBytes))
    answers.advice.push_back(
        {strCat("a machine with more memory: a budget of ", formatBytes(knee.memoryBytes),
                " instead of ", formatBytes(facts.budgetBytes)),
         memoryCommand(knee.memoryBytes), routesText() + " with a larger pool", true,
         simulation.disk().origin, knee.predicted});
}

void Adviser::adviseDisk() {
  const FittedDisk &disk = simulation.disk();
  if (!disk.isFitted)
    return;
  for (const DiskPoint &point : answers.disks)
    if (point.rateFactor == 2 && point.latencyFactor == 1)
      answers.advice.push_back(
          {strCat("a disk of twice the rate: ", shownRate(point.bytesPerSecond), " instead of ",
                  shownRate(disk.bytesPerSecond)),
           "", routesText() + " with the disk's rates doubled", true, disk.origin,
           point.predicted});
}

/// The best candidate that is next in bytes, with the loss that it was measured to have. One that
/// is expected within the target failed the acceptance test: another target would not help. False:
/// the search measured no such one.
bool Adviser::adviseCandidate() {
  if (answers.candidates.empty())
    return false;
  const Measured &known = *simulation.inputs().artifact.measured;
  if (known.target <= 0) // Accepted on a quantile alone.
    return false;
  const CandidatePoint *next = nullptr;
  for (const CandidatePoint &point : answers.candidates)
    if (point.isBest && point.bytesFactor < 1 && point.predicted &&
        boundOf(known.candidates[point.candidate]).value_or(0) > known.target)
      next = &point;
  if (!next)
    return false;
  const double needed = *boundOf(known.candidates[next->candidate]);
  const std::string bound = lossText(known.metric, needed);
  answers.advice.push_back(
      {strCat("more loss allowed: ", bound, " instead of ", lossText(known.metric, known.target),
              ", experts of ", fixed(100 * next->bytesFactor, 0), "% of the bytes"),
       strCat("moec compile CHECKPOINT -o NEW.moe --accuracy-loss ",
              lossOption(known.metric, needed)),
       routesText() + " with the records of widths that the search measured, computed in "
                      "proportion to their bytes",
       false, Origin::kAssumed, *next->predicted});
  return true;
}

void Adviser::adviseWidths() {
  if (adviseCandidate() || answers.widths.empty())
    return;
  const WidthPoint &next = answers.widths.front();
  answers.advice.push_back(
      {strCat("fewer bits: experts of ", fixed(next.bits, 0), " bits, ",
              fixed(100 * next.bytesFactor, 0), "% of the bytes"),
       strCat("moec compile CHECKPOINT -o NEW.moe --bits ", fixed(next.bits, 0)),
       routesText() + " with smaller records, computed in proportion to their bytes", false,
       Origin::kAssumed, next.predicted});
}

void Adviser::rank() {
  std::erase_if(answers.advice,
                [](const Advice &each) { return each.predicted.gain < kLeastGain; });
  std::ranges::stable_sort(answers.advice, [](const Advice &a, const Advice &b) {
    return a.needsHardware != b.needsHardware ? b.needsHardware
                                              : a.predicted.gain > b.predicted.gain;
  });
}

} // namespace

Status advise(const RunSimulation &simulation, const Predictor &predictor, const Session &session,
              WhatIf &answers) {
  return Adviser(simulation, predictor, session, answers).advise();
}

} // namespace moec
