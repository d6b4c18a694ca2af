#include "compiler/report/RunSimulation.h"

#include "compiler/plan/DeviceTimes.h"
#include "compiler/plan/MakePlans.h"
#include "compiler/profile/TracedRouting.h"
#include "compiler/report/ScaledCosts.h"
#include "runtime/policy/CacheAllotment.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace moert;

namespace moec {

//===-- Routes --------------------------------------------------------------------------------===//

static uint64_t demandsPerToken(const ModelFacts &facts) {
  return std::accumulate(facts.topK.begin(), facts.topK.end(), uint64_t(0));
}

std::vector<TraceStep> stepsOfRun(const RunFacts &facts, uint64_t tokens) {
  std::vector<TraceStep> steps;
  const uint64_t prompt = std::min(tokens, facts.promptTokens);
  const uint64_t chunk = std::max(1u, facts.prefillChunkTokens);
  for (uint64_t done = 0; done < prompt; done += steps.back().tokens)
    steps.push_back({static_cast<uint32_t>(std::min(chunk, prompt - done)), done == 0});
  steps.resize(steps.size() + (tokens - prompt));
  return steps;
}

/// Those that were recorded of a MoE layer, from so many before it.
void RunSimulation::addPredictions(Predictor predictor, uint32_t moeLayer, uint32_t ahead) {
  const RecordedCandidates &made = record.candidates[moeLayer];
  LayerPredictions &layer = predictions.emplace_back();
  layer.predictor = usesGate(predictor) ? Predictor::kGate : predictor;
  layer.layer = moeLayer;
  layer.ahead = ahead;
  layer.perToken = made.perToken;
  layer.candidates.resize(record.facts.promptTokens * made.perToken); // Prompts have none.
  const size_t perToken = size_t(made.depths) * made.perToken;
  for (size_t first = (std::min(ahead, made.depths) - 1) * made.perToken;
       first + made.perToken <= made.candidates.size(); first += perToken)
    layer.candidates.insert(layer.candidates.end(), made.candidates.begin() + ptrdiff_t(first),
                            made.candidates.begin() + ptrdiff_t(first + made.perToken));
}

Status RunSimulation::readRoutes() {
  const uint64_t prompt = record.facts.promptTokens;
  const uint64_t most = std::max<uint64_t>(1, kMostReplayedDemands / demandsPerToken(given.facts));
  const uint64_t tokens = std::min(record.routedTokens, prompt + most);
  if (tokens <= prompt)
    return invalidInput(record.path, ": found routes of ", record.routedTokens,
                        " tokens and a prompt of ", prompt,
                        ", expected routes of decoded tokens: profile a run with a shorter prompt");
  std::vector<LayerRoutes> routes;
  for (size_t i = 0; i < record.chosen.size(); ++i) {
    const uint32_t topK = given.facts.topK[i];
    routes.push_back({static_cast<uint32_t>(given.facts.recordBytes[i].size()), topK,
                      std::span(record.chosen[i]).first(tokens * topK)});
  }
  const std::vector<TraceStep> steps = stepsOfRun(record.facts, tokens);
  promptSteps = steps.size() - (tokens - prompt);
  MOERT_ASSIGN_OR_RETURN(routing, makeTrace(routes, steps));

  const Plan &plan = planOf(given, record);
  for (uint32_t l = 0; l < plan.prefetches.size(); ++l) {
    const RecordedCandidates &made = record.candidates[l];
    for (uint32_t ahead = 1; ahead <= kMostAhead && made.perToken > 0; ++ahead)
      if (plan.prefetches[l].predictsFrom(ahead))
        addPredictions(plan.prefetches[l].predictor, l, ahead);
  }
  for (const RecordedStep &step : record.steps)
    if (step.step.phase == RunPhase::kDecode && step.step.firstToken < tokens)
      replayed.push_back(&step);
  return {};
}

Status RunSimulation::readCalibration() {
  if (!given.trace || given.trace->decidingTokens() == given.trace->tokens())
    return {};
  MOERT_ASSIGN_OR_RETURN(calibration, routingOf(*given.trace, given.learned.paths, given.facts));
  calibrationFrom = calibration->decidingSteps();
  isRuleApplied = losesDecoding() && !calibration->scores.empty();
  // A long trace of a large model is replayed in part, with as large a part that counts; with a
  // miss rule in nearly all replays, which then take as long as those of a run's routes.
  const uint64_t most = isRuleApplied ? kMostReplayedDemands : 2 * kMostReplayedDemands;
  const size_t layers = calibration->whole.layerExperts.size();
  const size_t steps = calibration->whole.passes.size() / layers;
  size_t taken = 0;
  for (uint64_t demands = 0; taken < steps && demands <= most; ++taken)
    demands = calibration->whole.passes[(taken + 1) * layers - 1].end;
  if (taken < steps) {
    calibration->whole = partOf(calibration->whole, 0, taken);
    calibrationFrom = taken * 2 / 3;
  }
  return {};
}

//===-- Costs ---------------------------------------------------------------------------------===//

static double partOf(double whole, double part, double parts) {
  return parts > 0 ? whole * part / parts : 0;
}

static double meanRecord(const std::vector<uint64_t> &records) {
  return std::accumulate(records.begin(), records.end(), 0.0) / static_cast<double>(records.size());
}

namespace {

/// Sums over decode steps, by layer of the model and the rest.
struct MeasuredSums {
  std::vector<LayerTotals> layers;
  PartNumbers partNs{};
  double wallNs = 0, steps = 0;

  explicit MeasuredSums(const std::vector<const RecordedStep *> &recorded)
      : layers(recorded.front()->layers.size()), steps(static_cast<double>(recorded.size())) {
    for (const RecordedStep *step : recorded) {
      wallNs += static_cast<double>(step->step.wallNs);
      for (size_t i = 0; i < layers.size(); ++i)
        layers[i].add(step->layers[i]);
      for (size_t i = 0; i < partNs.size(); ++i)
        partNs[i] += step->step.partNs[i];
    }
  }
  double part(StepPart part) const { return static_cast<double>(partNs[size_t(part)]); }
  LayerTotals all() const {
    LayerTotals sum;
    for (const LayerTotals &layer : layers)
      sum += layer;
    return sum;
  }
};

/// Steps that decide a slope: every pair of them is compared.
constexpr size_t kMostSlopeSteps = 256, kLeastSlopeSteps = 16;

/// What computing the experts of a step takes more, in ns per byte of experts that it did not find
/// in memory: the median of the slopes of all pairs of steps (Theil and Sen), which steps that
/// something disturbed do not move. Negative where experts that were just read and checked are
/// still in the processor's cache.
double expertNsPerMissedByte(const std::vector<const RecordedStep *> &steps,
                             const std::vector<MoeLayer> &layers,
                             std::span<const std::vector<uint64_t>> recordBytes) {
  struct Point {
    double missedBytes = 0, ns = 0;
  };
  std::vector<Point> points;
  const size_t every = divideUp(steps.size(), kMostSlopeSteps);
  for (size_t i = 0; i < steps.size(); i += every) {
    Point &point = points.emplace_back();
    point.ns = static_cast<double>(steps[i]->step.partNs[size_t(StepPart::kExperts)]);
    for (size_t l = 0; l < layers.size(); ++l)
      point.missedBytes += steps[i]->layers[layers[l].layer].misses * meanRecord(recordBytes[l]);
  }
  std::vector<double> slopes;
  for (size_t i = 0; i < points.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (points[i].missedBytes != points[j].missedBytes)
        slopes.push_back((points[i].ns - points[j].ns) /
                         (points[i].missedBytes - points[j].missedBytes));
  if (points.size() < kLeastSlopeSteps || slopes.empty())
    return 0;
  const auto middle = slopes.begin() + static_cast<ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  return *middle;
}

} // namespace

/// Divides the measured times among the operations that the replay has. Experts and checksums are
/// divided by bytes; networks that every token takes evenly.
void RunSimulation::measureCosts() {
  const MeasuredSums sums(replayed);
  const LayerTotals all = sums.all();
  const std::vector<MoeLayer> &moeLayers = given.artifact.moeLayers;
  double demandedBytes = 0, readBytes = 0;
  for (size_t l = 0; l < moeLayers.size(); ++l) {
    const LayerTotals &layer = sums.layers[moeLayers[l].layer];
    const double bytes = meanRecord(given.facts.recordBytes[l]);
    demandedBytes += static_cast<double>(layer.hits + layer.misses) * bytes;
    readBytes += static_cast<double>(layer.misses) * bytes;
  }
  // No more is saved than checking takes, which brings a record into the processor's cache.
  const double checkNsPerByte = partOf(sums.part(StepPart::kChecksums), 1, readBytes);
  const double slope = expertNsPerMissedByte(replayed, moeLayers, given.facts.recordBytes);
  const double savedNsPerByte = std::clamp(-slope, 0.0, checkNsPerByte);
  const double densePerLayer =
      sums.part(StepPart::kDense) / static_cast<double>(given.artifact.model.layers);
  size_t next = 0; // The first layer of the model that no MoE layer's time has yet.
  for (size_t l = 0; l < moeLayers.size(); ++l) {
    const LayerTotals &layer = sums.layers[moeLayers[l].layer];
    const double bytes = meanRecord(given.facts.recordBytes[l]);
    const double demanded = static_cast<double>(layer.hits + layer.misses);
    const double missed = static_cast<double>(layer.misses);
    const double expertNs = partOf(sums.part(StepPart::kExperts), demanded * bytes, demandedBytes);
    const double checkNs = partOf(sums.part(StepPart::kChecksums), missed * bytes, readBytes);
    const double requestNs =
        partOf(sums.part(StepPart::kRequests), static_cast<double>(layer.bytesRead),
               static_cast<double>(all.bytesRead));
    double otherNs = -expertNs - checkNs - requestNs;
    for (; next <= moeLayers[l].layer; ++next)
      otherNs += static_cast<double>(sums.layers[next].computeNs);
    const double besideNs = std::clamp(densePerLayer, 0.0, std::max(0.0, otherNs));
    StepCosts::Layer &cost = costs.layers.emplace_back();
    cost.before.firstNs = std::max(0.0, otherNs - besideNs) / sums.steps;
    cost.beside.firstNs = besideNs / sums.steps;
    const double savedNs = savedNsPerByte * bytes; // By computing right after checking.
    cost.expert.firstNs = demanded > 0 ? (expertNs + savedNs * missed) / demanded : 0;
    // A chunk's further tokens find the weights in a processor cache.
    cost.expert.furtherNs = cost.expert.firstNs / 4;
    // All of it where checking saves what it takes; rounding must not go beyond.
    cost.checks.sliceNs = {missed > 0 ? std::max(0.0, checkNs / missed - savedNs) : 0};
  }
  double afterNs = sums.wallNs - static_cast<double>(all.computeNs + all.waitNs);
  for (; next < sums.layers.size(); ++next)
    afterNs += static_cast<double>(sums.layers[next].computeNs);
  costs.after.firstNs = std::max(0.0, afterNs) / sums.steps;
  costs.contention.submitNsPerByte =
      all.bytesRead > 0 ? sums.part(StepPart::kRequests) / static_cast<double>(all.bytesRead) : 0;
  if (given.device) {
    costs.contention.readingWhileComputing = given.device->fractionWhileComputing.value;
    costs.contention.computingWhileReading = given.device->fractionWhileReading.value;
    costs.contention.wakeNs = given.device->wakeNs.value;
  }
  costs.origin = Origin::kMeasured;
}

//===-- The disk ------------------------------------------------------------------------------===//

// Without a device profile: an NVMe disk's latency, and a rate that the fit replaces.
constexpr double kAssumedLatencyNs = 80'000, kAssumedBytesPerNs = 2;

void RunSimulation::assumeDisk() {
  if (given.device) {
    reads = plannedReads(*given.device);
    return;
  }
  reads.sizes = {4096, 65536, 1 << 20, 16 << 20};
  reads.depths = {1, 2, 4, 8, 16};
  for (uint64_t size : reads.sizes)
    for (uint32_t depth : reads.depths) {
      const double bytes = static_cast<double>(size);
      const double bytesPerNs = std::min(
          kAssumedBytesPerNs, depth * bytes / (kAssumedLatencyNs + bytes / kAssumedBytesPerNs));
      reads.bytesPerSecond.push_back({bytesPerNs * 1e9, Origin::kAssumed});
    }
}

static double rateOf(const ReadTable &reads, double bytes, double depth) {
  const auto record = static_cast<uint64_t>(std::max(1.0, bytes));
  return depth * bytes / readNs(reads, record, depth).value * 1e9;
}

/// Less than this fraction of a token waiting gives no rate of the disk.
constexpr double kLeastWaiting = 0.01;

/// Two unknowns, two measured times: the disk's rate by the waits, and a factor on computing, which
/// a device's contention slows down again.
Status RunSimulation::fit() {
  const MeasuredSums sums(replayed);
  const LayerTotals all = sums.all();
  const double waitNs = static_cast<double>(all.waitNs) / sums.steps;
  const double tokenNs = sums.wallNs / sums.steps;
  const StepCosts measured = costs;
  const ReadTable given0 = reads;
  fitted.isFitted = waitNs > kLeastWaiting * tokenNs;
  double computing = 1;
  constexpr int kMostSteps = 16;
  constexpr double kClose = 0.005;
  for (int step = 0; step < kMostSteps; ++step) {
    reads = changedReads(given0, fitted.factor, fitted.factor > 1 ? 1 / fitted.factor : 1);
    costs = measured;
    for (StepCosts::Layer &layer : costs.layers) {
      layer.before.firstNs *= computing;
      layer.beside.firstNs *= computing;
      layer.expert.firstNs *= computing;
      layer.expert.furtherNs *= computing;
    }
    costs.after.firstNs *= computing;
    MOERT_ASSIGN_OR_RETURN(unchanged, simulate({}));
    const double computeError =
        (tokenNs - waitNs) / std::max(1.0, unchanged.tokenNs - unchanged.waitNs);
    // A run that hardly waits has a disk that is fast enough, however fast it is.
    const double waitError = fitted.isFitted
                                 ? unchanged.waitNs / waitNs
                                 : std::max(1.0, unchanged.waitNs / (kLeastWaiting * tokenNs));
    if (std::abs(computeError - 1) < kClose && std::abs(waitError - 1) < kClose)
      break;
    computing *= std::clamp(computeError, 0.5, 2.0);
    fitted.factor = std::clamp(fitted.factor * std::clamp(waitError, 0.25, 4.0), 1e-4, 1e3);
  }
  double recordBytes = 0, depth = 0;
  for (size_t l = 0; l < given.facts.topK.size(); ++l) {
    recordBytes += meanRecord(given.facts.recordBytes[l]);
    depth += given.facts.topK[l];
  }
  const double layers = static_cast<double>(given.facts.topK.size());
  recordBytes /= layers;
  depth = std::max(1.0, depth / layers);
  fitted.bytesPerSecond = rateOf(reads, recordBytes, depth);
  fitted.origin = given.device ? Origin::kDerived : Origin::kAssumed;
  if (given.device)
    fitted.profiledBytesPerSecond = rateOf(given0, recordBytes, depth);
  fitted.text = strCat(fitted.isFitted ? "a rate at which a replay waits as long as the run did"
                                       : "the run hardly waited for reads, so that its rate is not "
                                         "known",
                       given.device ? ", with the device profile's dependence on size and depth"
                                    : "; a latency of 80 us is assumed, as no --device was given");
  return {};
}

//===-- Replays -------------------------------------------------------------------------------===//

Result<std::unique_ptr<RunSimulation>> RunSimulation::create(const ReportInputs &inputs,
                                                             const RunRecord &run) {
  std::unique_ptr<RunSimulation> made(new RunSimulation(inputs, run));
  MOERT_RETURN_IF_ERROR(made->readRoutes());
  if (made->replayed.empty())
    return invalidInput(run.path, ": found no step of the tokens with routes, expected some");
  MOERT_RETURN_IF_ERROR(made->readCalibration());
  made->measureCosts();
  made->assumeDisk();
  MOERT_RETURN_IF_ERROR(check(made->problem()));
  made->ownSettings = made->adjustedSettings(made->poolPages());
  MOERT_RETURN_IF_ERROR(made->fit());
  return made;
}

static PlanProblem problemOf(const ModelFacts &facts, const RoutingTrace &trace,
                             std::span<const LayerPredictions> predictions, uint64_t poolPages,
                             const ReadTable &reads, const StepCosts &costs) {
  return {.trace = &trace,
          .predictions = predictions,
          .recordBytes = facts.recordBytes,
          .topK = facts.topK,
          .pageBytes = facts.footprint.pageBytes,
          .poolPages = poolPages,
          .reads = &reads,
          .costs = &costs};
}

PlanProblem RunSimulation::problem() const {
  return problemOf(given.facts, routing, predictions, poolPages(), reads, costs);
}

PlanProblem RunSimulation::calibrationProblem() const {
  PlanProblem problem = problemOf(given.facts, calibration->whole, calibration->predictions,
                                  poolPages(), reads, costs);
  problem.sliceEnds = given.facts.sliceEnds;
  problem.lowCopySlices = given.facts.lowCopySlices;
  problem.scores = calibration->scores;
  problem.expertNorms = planOf(given, record).expertNorms;
  return problem;
}

bool RunSimulation::isLossy() const {
  return planOf(given, record).miss.isLossy() &&
         record.decode.sum().changed() + record.prefill.sum().changed() > 0;
}

bool RunSimulation::losesDecoding() const {
  return isLossy() && planOf(given, record).miss.changesDecoding();
}

PlanSettings predictedOnly(PlanSettings settings, const PlanProblem &problem) {
  for (uint32_t l = 0; l < settings.prefetches.size(); ++l) {
    PrefetchRule &rule = settings.prefetches[l];
    if (knownCandidates(problem, rule, l) < rule.candidates)
      rule = {};
  }
  return settings;
}

PlanSettings RunSimulation::settingsFor(uint64_t pages) const {
  return pages == poolPages() ? ownSettings : adjustedSettings(pages);
}

PlanSettings RunSimulation::adjustedSettings(uint64_t pages) const {
  PlanProblem whole = problem();
  whole.poolPages = pages;
  PlanSettings settings = predictedOnly(settingsOf(planOf(given, record)), whole);
  setMiss({}, settings); // The run's own routes have no scores.
  settings.allotment = adjustAllotment(settings.allotment, shapeOf(whole), pages);
  // As the runtime does, pins that do not fit are left out.
  while (!settings.pinned.empty() && !verify(whole, settings).isOk()) {
    size_t longest = 0;
    for (const std::vector<uint32_t> &pinned : settings.pinned)
      longest = std::max(longest, pinned.size());
    if (longest == 0)
      break;
    for (std::vector<uint32_t> &pinned : settings.pinned)
      if (pinned.size() == longest)
        pinned.pop_back();
  }
  return settings;
}

bool RunSimulation::holds(double expertBytes, uint64_t pages) const {
  PlanProblem changed = problem();
  changed.poolPages = pages;
  double largest = 0;
  for (const std::vector<uint64_t> &layer : given.facts.recordBytes)
    largest = std::max(largest, static_cast<double>(std::ranges::max(layer)));
  // The factor is from a file: a record beyond the pool may also be beyond 64 bits.
  if (!(largest * expertBytes <= double(changed.poolPages) * double(changed.pageBytes)))
    return false;
  StepCosts changedCosts = costs;
  ScaledRecords records;
  scaleExperts(expertBytes, given.facts, changedCosts, records);
  changed.recordBytes = records.bytes;
  return verify(changed, settingsFor(pages)).isOk();
}

Result<Simulated> RunSimulation::simulate(const Change &change) const {
  PlanSettings settings = settingsFor(change.poolPages.value_or(poolPages()));
  if (isRuleApplied) {
    settings = predictedOnly(std::move(settings), calibrationProblem());
    settings.miss = planOf(given, record).miss;
    settings.rules.baseSlices = planOf(given, record).rules.baseSlices;
  }
  return simulate(change, settings);
}

Result<Simulated> RunSimulation::simulate(const Change &change,
                                          const PlanSettings &settings) const {
  const bool isOnCalibration = change.isOnCalibration || isRuleApplied;
  PlanProblem changed = isOnCalibration ? calibrationProblem() : problem();
  changed.poolPages = change.poolPages.value_or(poolPages());
  StepCosts changedCosts = costs;
  ScaledRecords records;
  if (change.expertBytes != 1) {
    scaleExperts(change.expertBytes, given.facts, changedCosts, records);
    changed.recordBytes = records.bytes;
    changed.sliceEnds = records.sliceEnds;
  }
  scaleComputing(change.computing, changedCosts);
  const ReadTable changedTable = changedReads(reads, change.readRate, change.readLatency);
  changed.costs = &changedCosts;
  changed.reads = &changedTable;
  const size_t fromStep = isOnCalibration ? calibrationFrom : promptSteps;
  MOERT_ASSIGN_OR_RETURN(const TimedResult result,
                         replayInTime(changed, settings, {.fromStep = fromStep}));
  return meansOf(result);
}

} // namespace moec
