#include "compiler/plan/TimedReplay.h"

#include "compiler/plan/DiskTimeline.h"
#include "compiler/plan/PoolPlaces.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

using namespace moert;

namespace moec {

TimedCounts &TimedCounts::operator+=(const TimedCounts &other) {
  cache += other.cache;
  misses += other.misses;
  displacedWeight += other.displacedWeight;
  computeNs += other.computeNs;
  waitNs += other.waitNs;
  return *this;
}

double TimedResult::meanNs(size_t begin, size_t end) const {
  end = std::min(end, tokenNs.size());
  if (begin >= end)
    return 0;
  return std::accumulate(tokenNs.begin() + ptrdiff_t(begin), tokenNs.begin() + ptrdiff_t(end),
                         0.0) /
         static_cast<double>(end - begin);
}

double TimedResult::quantileNs(double fraction) const {
  if (tokenNs.empty())
    return 0;
  std::vector<double> sorted = tokenNs;
  double rank = std::ceil(fraction * static_cast<double>(sorted.size()));
  size_t index = std::min(sorted.size() - 1, static_cast<size_t>(std::max(1.0, rank)) - 1);
  std::nth_element(sorted.begin(), sorted.begin() + ptrdiff_t(index), sorted.end());
  return sorted[index];
}

namespace {

/// Beside an expert's entry in the directory.
struct ExpertTimes {
  uint32_t size = 0;      // As ReadPaces names the record's size.
  uint32_t unchecked = 0; // Slices whose checksums were not computed since they were read.
};

/// What is prefetched at a layer's turn.
struct PrefetchPlace {
  uint32_t layer = 0; // The one that is prefetched.
  PrefetchRule rule;
  const LayerPredictions *made = nullptr;
};

/// What a layer prefetches, and what its gates take together.
struct LayerPrefetches {
  std::vector<PrefetchPlace> places;
  double gatesNs = 0;
};

/// One replay: drives the machine as ExpertCache does, with a clock of its own.
class Executor {
public:
  Executor(const PlanProblem &given, const PlanSettings &settings, CacheMachine filled);
  TimedResult runPass(const TimedOptions &options);

private:
  std::vector<std::vector<uint32_t>> heldExperts() const;
  void executeLayer(const RoutingPass &pass);
  void beginPrompt();
  PassDemand demandOf(const RoutingPass &pass);
  void computeOperations(double ns);
  void computeExpert(const StepCosts::Layer &costs, uint32_t index, uint32_t tokens);
  void prefetch(uint32_t layer);
  uint32_t nextReady(const CheckCost &checks);
  void checkReady(const CheckCost &checks);
  void waitForRead();
  void compute(double ns);
  double computeUntilRead(double ns);
  void collect();
  void poll();
  void act();
  void read(const CacheAction &action);
  TimedCounts takeCounts();

  const PlanProblem &problem;
  CacheMachine machine;
  TracedMisses misses;
  std::vector<LayerPrefetches> prefetchesAt; // By the layer that makes them.
  std::vector<uint16_t> prefetchSlices;
  ReadPaces paces;
  DiskTimeline disk;
  PoolPlaces memory;
  std::vector<ExpertTimes> experts; // By the directory's ids.
  std::vector<uint32_t> ended;      // Reads that have ended and were not reported yet.
  double now = 0;
  uint64_t token = 0; // The step's first token in the trace.
  double beginNs = 0; // When the layer pass began.
  TimedCounts times;  // Since takeCounts; the machine has the counts.
};

/// At most one of a layer reaches as far ahead as another, so that there are kMostAhead at most.
static double gatesNs(const StepCosts &costs, std::span<const PrefetchPlace> places) {
  auto isGate = [](const PrefetchPlace &place) { return usesGate(place.rule.predictor); };
  const auto gates = static_cast<size_t>(std::ranges::count_if(places, isGate));
  double sum = 0;
  for (const PrefetchPlace &place : places)
    if (isGate(place))
      sum += costs.layers[place.layer].predictNs[gates - 1];
  return sum;
}

Executor::Executor(const PlanProblem &given, const PlanSettings &settings, CacheMachine filled)
    : problem(given), machine(std::move(filled)),
      misses(settings.miss, given.scores, settings.rules.eviction, given.expertNorms),
      prefetchesAt(machine.state().layerCount()), paces(*given.reads),
      disk(paces, given.costs->contention.wakeNs),
      memory(*given.reads, settings.allotment.totalPages(), machine.state().size().experts) {
  for (uint32_t id = 0; id < machine.state().size().experts; ++id) {
    const DirectoryEntry &entry = machine.at(id);
    experts.push_back({paces.sizeOf(entry.bytes)});
    if (entry.isHeld())
      memory.take(id, machine.state().pagesHeldBy(id), entry.bytes);
  }
  for (uint32_t layer = 0; layer < settings.prefetches.size(); ++layer) {
    const PrefetchRule &rule = settings.prefetches[layer];
    for (uint32_t ahead = 1; ahead <= kMostAhead; ++ahead)
      if (rule.predictsFrom(ahead))
        prefetchesAt[layer - ahead].places.push_back(
            {layer, rule, findPredictions(problem, rule, layer, ahead)});
  }
  for (LayerPrefetches &prefetches : prefetchesAt)
    prefetches.gatesNs = gatesNs(*problem.costs, prefetches.places);
}

TimedResult Executor::runPass(const TimedOptions &options) {
  TimedResult result;
  const RoutingTrace &trace = *problem.trace;
  const size_t layers = trace.layerExperts.size();
  const size_t steps = std::min(options.steps, trace.passes.size() / layers);
  TimedCounts uncounted;
  for (size_t step = 0; step < steps; ++step) {
    const std::span<const RoutingPass> passes(&trace.passes[step * layers], layers);
    const uint32_t tokens = passes.front().tokens;
    const bool isCounted = step >= options.fromStep;
    TimedCounts &sum = !isCounted ? uncounted : tokens == 1 ? result.decode : result.prefill;
    if (step == options.fromStep)
      result.heldBefore = heldExperts();
    const double begin = now;
    for (const RoutingPass &pass : passes) {
      executeLayer(pass);
      const TimedCounts counts = takeCounts();
      sum += counts;
      if (options.keepsPasses && isCounted)
        result.passes.push_back({counts, beginNs, now});
    }
    token += tokens;
    computeOperations(problem.costs->after.of(tokens));
    sum += takeCounts();
    if (!isCounted)
      continue;
    if (tokens == 1) {
      result.tokenNs.push_back(now - begin);
      continue;
    }
    result.prefillTokens += tokens;
    result.prefillNs += now - begin;
  }
  result.diskBusyNs = disk.busyNs();
  result.forbiddenEvents = machine.state().forbiddenEvents();
  return result;
}

/// Prefetches count, complete or being read.
std::vector<std::vector<uint32_t>> Executor::heldExperts() const {
  std::vector<std::vector<uint32_t>> held(machine.state().layerCount());
  for (uint32_t id = 0; id < experts.size(); ++id)
    if (machine.at(id).isHeld() || machine.at(id).isPrefetch())
      held[machine.at(id).layer].push_back(machine.state().expertOf(id));
  return held;
}

TimedCounts Executor::takeCounts() {
  times.cache = machine.takeCounts();
  return std::exchange(times, {});
}

//===-- A layer pass --------------------------------------------------------------------------===//

void Executor::executeLayer(const RoutingPass &pass) {
  if (pass.beginsPrompt)
    beginPrompt();
  const StepCosts::Layer &costs = problem.costs->layers[pass.layer];
  computeOperations(costs.before.of(pass.tokens));
  const PassDemand demand = demandOf(pass);
  if (pass.tokens == 1)
    prefetch(pass.layer);
  collect();
  beginNs = now;
  const bool isExecutable = machine.beginPass(pass.layer, demand);
  assert(isExecutable && "checked with the trace");
  (void)isExecutable;
  act();
  computeOperations(costs.beside.of(pass.tokens));
  while (!machine.isAllHandedOut()) {
    const uint32_t index = nextReady(costs.checks);
    computeExpert(costs, index, demand.uses[index]);
    machine.release(index);
    act();
  }
  machine.endPass();
  for (act(); !machine.settlePromotions(); act())
    waitForRead();
  act();
}

PassDemand Executor::demandOf(const RoutingPass &pass) {
  const PassDemand demand = misses.demandOf(machine, *problem.trace, pass, pass.layer, token);
  times.misses += misses.counts();
  times.displacedWeight += misses.displacedWeight();
  return demand;
}

void Executor::computeExpert(const StepCosts::Layer &costs, uint32_t index, uint32_t tokens) {
  const CacheUnit &unit = machine.at(machine.idOf(index)).unit;
  const bool isWhole =
      unit.slicesPresent == unit.slices || unit.slicesPresent > costs.firstSlices.size();
  compute((isWhole ? costs.expert : costs.firstSlices[unit.slicesPresent - 1u]).of(tokens));
}

void Executor::beginPrompt() {
  while (disk.underWay() > 0)
    waitForRead();
  machine.beginPrompt();
  act();
}

/// Computes many short operations, after each of which the runtime polls its reads.
void Executor::computeOperations(double ns) {
  poll();
  while (ns > 0) {
    ns = computeUntilRead(ns);
    poll();
  }
}

void Executor::prefetch(uint32_t layer) {
  compute(prefetchesAt[layer].gatesNs);
  for (const PrefetchPlace &place : prefetchesAt[layer].places) {
    const size_t perToken = place.made->perToken;
    auto named = std::span(place.made->candidates).subspan(token * perToken, perToken);
    while (named.size() > 1 && named.back().expert == named[named.size() - 2].expert)
      named = named.first(named.size() - 1);
    named = named.first(std::min<size_t>(named.size(), place.rule.candidates)); // As the engine.
    prefetchSlices.resize(named.size());
    lowerPrefetch(misses.missRule(), problem.topK[place.layer], named, prefetchSlices);
    machine.prefetch({place.layer, place.rule, named, prefetchSlices});
  }
}

/// The next expert to compute, waiting for it if need be; an index into the demand.
uint32_t Executor::nextReady(const CheckCost &checks) {
  poll();
  const bool isStalled = machine.ready().empty();
  while (machine.ready().empty()) {
    waitForRead();
    act();
  }
  if (experts[machine.idOf(machine.ready().front())].unchecked > 0)
    checkReady(checks);
  return machine.handOut(isStalled);
}

/// Checks the expert that is handed out next and, if threads are left, ready ones after it.
void Executor::checkReady(const CheckCost &checks) {
  uint32_t checked = 0, slices = 0;
  for (uint32_t index : machine.ready()) {
    uint32_t &unchecked = experts[machine.idOf(index)].unchecked;
    if (checked == checks.together() || unchecked == 0)
      continue;
    ++checked;
    slices += std::exchange(unchecked, 0);
  }
  compute(checks.ofSlices(slices));
}

/// Not at all for one that has ended while something was computed.
void Executor::waitForRead() {
  if (ended.empty()) {
    const double before = now;
    now = disk.nextEndNs();
    times.waitNs += now - before;
  }
  collect();
}

//===-- Time and reads ------------------------------------------------------------------------===//

/// Computes what takes so long alone, in one go: reads that end meanwhile are looked at afterwards.
void Executor::compute(double ns) {
  while (ns > 0)
    ns = computeUntilRead(ns);
}

/// The same until a read ends; what is left of it then. While reads are under way both are slower.
double Executor::computeUntilRead(double ns) {
  const Contention &contention = problem.costs->contention;
  if (disk.underWay() == 0) {
    now += ns;
    times.computeNs += ns;
    return 0;
  }
  const double fraction = contention.computingWhileReading;
  const double before = now, end = disk.nextEndNs(contention.readingWhileComputing);
  now = std::min(before + ns / fraction, end);
  times.computeNs += now - before;
  disk.advanceTo(now, ended, contention.readingWhileComputing);
  return now < end ? 0 : ns - (now - before) * fraction;
}

void Executor::collect() {
  disk.advanceTo(now, ended);
  for (uint32_t id : ended)
    (void)machine.completed(id, true);
  ended.clear();
}

/// The machine has something to do only if a read has ended.
void Executor::poll() {
  disk.advanceTo(now, ended);
  if (ended.empty())
    return;
  collect();
  act();
}

void Executor::act() {
  while (const std::optional<CacheAction> action = machine.next())
    if (action->isRead)
      read(*action);
    else
      memory.giveBack(action->id, machine.state().pagesFor(action->id, action->firstSlice));
}

void Executor::read(const CacheAction &action) {
  const uint32_t id = action.id;
  const DirectoryEntry &entry = machine.at(id);
  const uint64_t bytes = machine.state().bytesOf(id, action.firstSlice, action.endSlice);
  const bool isWhole = bytes == entry.bytes;
  uint32_t &unchecked = experts[id].unchecked;
  unchecked = action.firstSlice == entry.unit.firstOf(action.endSlice) ? 0 : unchecked;
  unchecked += isWhole ? problem.costs->layers[entry.layer].checks.slices
                       : static_cast<uint32_t>(action.endSlice - action.firstSlice);
  disk.advanceTo(now, ended);
  // One that is read further may have its pages; they count as not used before.
  const double speed = memory.take(id, machine.state().pagesFor(id, action.endSlice), bytes);
  disk.begin(id, isWhole ? experts[id].size : paces.sizeOf(bytes), speed);
  compute(problem.costs->contention.submitNsPerByte * static_cast<double>(bytes));
}

} // namespace

Result<TimedResult> replayInTime(const PlanProblem &problem, const PlanSettings &settings,
                                 const TimedOptions &options) {
  MOERT_RETURN_IF_ERROR(verify(problem, settings));
  const ReplayCache cache = replayCacheOf(problem, settings);
  MOERT_ASSIGN_OR_RETURN(CacheReplay filled, CacheReplay::create(cache));
  const uint64_t startBytes = filled.startBytes();
  TimedResult result =
      Executor(problem, settings, std::move(filled).takeMachine()).runPass(options);
  result.startBytes = startBytes;
  return result;
}

} // namespace moec
