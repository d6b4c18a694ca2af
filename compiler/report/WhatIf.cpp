#include "compiler/report/WhatIf.h"

#include "compiler/inspection/Inspect.h"
#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/PlanForecast.h"
#include "compiler/plan/PlanSearch.h"
#include "compiler/plan/PresetRules.h"
#include "compiler/plan/StepCosts.h"
#include "compiler/report/ReportFacts.h"
#include "compiler/report/RunCommand.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
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
  Questions(const RunSimulation &of, const Session &user)
      : simulation(of), session(user), measured(measuredTokensPerSecond(of.run())) {}

  Result<WhatIf> ask() {
    MOERT_RETURN_IF_ERROR(askBudgets());
    MOERT_RETURN_IF_ERROR(askDisks());
    MOERT_RETURN_IF_ERROR(askWidths());
    MOERT_RETURN_IF_ERROR(askCandidates());
    MOERT_RETURN_IF_ERROR(askThreads());
    MOERT_RETURN_IF_ERROR(askProfiledDisk());
    MOERT_RETURN_IF_ERROR(askPlan());
    adviseMemory();
    adviseDisk();
    adviseWidths();
    rank();
    return std::move(answers);
  }

private:
  Predicted anchored(const Simulated &changed, const Simulated &base) const {
    const double ratio = changed.tokenNs > 0 ? base.tokenNs / changed.tokenNs : 1;
    return {measured * ratio, ratio - 1, changed};
  }
  Result<Predicted> predict(const RunSimulation::Change &change) const {
    MOERT_ASSIGN_OR_RETURN(const Simulated changed, simulation.simulate(change));
    return anchored(changed, simulation.base());
  }
  /// A change, with other settings than the run's if there are some.
  struct Asked {
    RunSimulation::Change change;
    const PlanSettings *settings = nullptr;
  };
  Result<Simulated> simulate(const Asked &asked) const {
    return asked.settings ? simulation.simulate(asked.change, *asked.settings)
                          : simulation.simulate(asked.change);
  }
  Result<std::vector<Simulated>> simulateAll(std::span<const Asked> all) const;
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
  Result<std::vector<Predicted>> predictAll(std::span<const RunSimulation::Change> changes) const;

  Status askBudgets();
  Status askDisks();
  Status askWidths();
  Status askCandidates();
  std::optional<uint64_t> pagesBeside(const MeasuredCandidate &candidate,
                                      const MeasuredCandidate &chosen) const;
  Status askThreads();
  Status askProfiledDisk();
  Status askPlan();
  void adviseMemory();
  void adviseDisk();
  void adviseWidths();
  bool adviseCandidate();
  void rank();

  const RunSimulation &simulation;
  const Session &session;
  double measured;
  WhatIf answers;
};

/// Each change alone.
Result<std::vector<Simulated>> Questions::simulateAll(std::span<const Asked> all) const {
  return replayEach(
      all.size(), [&](size_t i) { return simulate(all[i]); }, session.stop);
}

Result<std::vector<Predicted>>
Questions::predictAll(std::span<const RunSimulation::Change> changes) const {
  std::vector<Asked> asked;
  for (const RunSimulation::Change &change : changes)
    asked.push_back({change});
  MOERT_ASSIGN_OR_RETURN(const std::vector<Simulated> simulated, simulateAll(asked));
  std::vector<Predicted> predicted;
  for (const Simulated &each : simulated)
    predicted.push_back(anchored(each, simulation.base()));
  return predicted;
}

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
  MOERT_ASSIGN_OR_RETURN(const std::vector<Predicted> predicted, predictAll(changes));
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
  MOERT_ASSIGN_OR_RETURN(const std::vector<Predicted> predicted, predictAll(changes));
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
  MOERT_ASSIGN_OR_RETURN(const std::vector<Predicted> predicted, predictAll(changes));
  for (size_t i = 0; i < predicted.size(); ++i)
    answers.widths[i].predicted = predicted[i];
  return {};
}

/// A loss, or the divergence where the search did not measure the loss: what orders candidates.
double lossOf(const MeasuredCandidate &candidate) {
  return candidate.loss.value_or(candidate.klNats);
}

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
  MOERT_ASSIGN_OR_RETURN(const std::vector<Predicted> predicted, predictAll(changes));
  for (size_t i = 0; i < held.size(); ++i)
    answers.candidates[held[i]].predicted = predicted[i];
  std::ranges::stable_sort(answers.candidates, {}, &CandidatePoint::bytes);
  return {};
}

/// With a device profile: its ratio of computing with all cores to the run's threads.
Status Questions::askThreads() {
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
  MOERT_ASSIGN_OR_RETURN(const Predicted predicted, predict({.computing = ratio}));
  answers.advice.push_back({strCat(facts.cores, " threads instead of ", facts.threads),
                            runCommand(simulation, {.threads = facts.cores}),
                            "the device profile's rates of one thread and of all", false,
                            Origin::kDerived, predicted});
  return {};
}

/// A disk that was faster when it was profiled can be faster again.
Status Questions::askProfiledDisk() {
  const FittedDisk &disk = simulation.disk();
  if (!disk.isSlowerThanProfile())
    return {};
  MOERT_ASSIGN_OR_RETURN(const Predicted predicted,
                         predict({.readRate = disk.profiledBytesPerSecond / disk.bytesPerSecond}));
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

std::string Questions::replanCommand(uint64_t bytes) const {
  return strCat("moec replan ", quotedWord(simulation.inputs().artifactPath), " --memory ",
                sizeOption(bytes), " --context ", simulation.run().facts.contextTokens);
}

/// Measures the machine where no profile of it was given.
std::string Questions::planCommand() const {
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
Status Questions::askPlan() {
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
  const Asked both[] = {{onCalibration}, {onCalibration, &settings}};
  MOERT_ASSIGN_OR_RETURN(const std::vector<Simulated> simulated, simulateAll(both));
  const std::string plan =
      strCat("eviction ", nameOf(settings.rules.eviction), ", ", nameOf(settings.rules.sharing),
             ", ", prefetchesAnything(settings.prefetches) ? "with" : "without", " prefetches");
  answers.advice.push_back(
      {strCat("another plan: ", plan), planCommand(),
       "searched for this pool and this run's disk on a part of the calibration trace, compared on "
       "another",
       false, Origin::kDerived, anchored(simulated[1], simulated[0])});
  return {};
}

/// A plan whose miss rule changed the run keeps its own cache in more memory: it is made again.
std::string Questions::memoryCommand(uint64_t bytes) const {
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

void Questions::adviseMemory() {
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

void Questions::adviseDisk() {
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
bool Questions::adviseCandidate() {
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

void Questions::adviseWidths() {
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

void Questions::rank() {
  std::erase_if(answers.advice,
                [](const Advice &each) { return each.predicted.gain < kLeastGain; });
  std::ranges::stable_sort(answers.advice, [](const Advice &a, const Advice &b) {
    return a.needsHardware != b.needsHardware ? b.needsHardware
                                              : a.predicted.gain > b.predicted.gain;
  });
}

} // namespace

Result<WhatIf> askWhatIf(const RunSimulation &simulation, const Session &session) {
  return Questions(simulation, session).ask();
}

} // namespace moec
