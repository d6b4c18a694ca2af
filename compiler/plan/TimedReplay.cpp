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
  ready += other.ready;
  stalled += other.stalled;
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

/// Where an expert's bytes are, beside its entry in the directory.
struct ExpertBytes {
  enum class State : uint8_t { kAbsent, kLoading, kReady };
  uint64_t bytes = 0;
  uint32_t size = 0; // As ReadPaces names it.
  State state = State::kAbsent;
  bool isChecked = false;
  bool isReadAsPrefetch = false; // While it is loading.
  bool isCancelled = false;      // A prefetch that is let go when its read ends.
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

/// One replay: does what ExpertCache does, with a clock of its own.
///
/// Invariants, between calls: an expert is not absent if and only if the directory has pages for
/// it, as held or as a prefetch; it is loading if and only if its read was begun and not yet taken.
class Executor {
public:
  Executor(const PlanProblem &given, const PlanSettings &settings, CacheDirectory filled,
           const DirectorySize &size);
  TimedResult runPass(const TimedOptions &options);

private:
  using State = ExpertBytes::State;

  std::vector<std::vector<uint32_t>> heldExperts() const;
  void executeLayer(const RoutingPass &pass);
  void beginPrompt();
  void computeOperations(double ns);
  void prefetch(uint32_t layer);
  void beginPass(const RoutingPass &pass);
  void settlePrefetches(uint32_t layer);
  void queueReads();
  void computeExpert(const RoutingPass &pass, uint32_t index);
  void checkReady(const CheckCost &checks);
  void endPass();
  /// The next wanted expert that is there, waiting for it if need be; an index into the demand.
  uint32_t nextReady();
  void waitForRead();
  void compute(double ns);
  double computeUntilRead(double ns);
  void collect();
  void startReads();
  void startPrefetches();
  void startRead(uint32_t id);
  size_t readsUnderWay() const { return disk.underWay() + ended.size(); }
  void cancel();
  void dropPrefetch(uint32_t id);
  void evict(uint32_t id);

  const PlanProblem &problem;
  CacheDirectory directory;
  PrefetchList prefetchList;
  std::vector<LayerPrefetches> prefetchesAt; // By the layer that makes them.
  ReadPaces paces;
  DiskTimeline disk;
  PoolPlaces memory;
  std::vector<ExpertBytes> experts; // By the directory's ids.
  std::vector<uint32_t> ended;      // Reads that have ended and were not taken yet.
  size_t prefetchesUnderWay = 0;    // Reads that were begun as prefetches.
  double now = 0;
  uint64_t token = 0; // Of the trace: the step's first one.

  // The open layer pass, as in ExpertCache.
  std::vector<uint32_t> wanted, toRead, ready, leaving;
  size_t nextRead = 0, handedOut = 0, nextLeaving = 0;
  TimedCounts counts;
  double beginNs = 0;
};

/// At most one of a layer reaches as far ahead as another, so that there are kMostAhead at most.
static double gatesNs(const StepCosts &costs, std::span<const PrefetchPlace> places) {
  auto isGate = [](const PrefetchPlace &place) { return place.rule.predictor == Predictor::kGate; };
  const auto gates = static_cast<size_t>(std::ranges::count_if(places, isGate));
  double sum = 0;
  for (const PrefetchPlace &place : places)
    if (isGate(place))
      sum += costs.layers[place.layer].predictNs[gates - 1];
  return sum;
}

Executor::Executor(const PlanProblem &given, const PlanSettings &settings, CacheDirectory filled,
                   const DirectorySize &size)
    : problem(given), directory(std::move(filled)), prefetchList(size), prefetchesAt(size.layers),
      paces(*given.reads), disk(paces, given.costs->contention.wakeNs),
      memory(*given.reads, settings.allotment.totalPages(), given.pageBytes, size.experts) {
  for (uint32_t layer = 0; layer < directory.layerCount(); ++layer)
    for (uint32_t expert = 0; expert < directory.expertsIn(layer); ++expert) {
      const uint64_t bytes = problem.recordBytes[layer][expert];
      const bool isHeld = directory.at(directory.idOf(layer, expert)).isHeld;
      experts.push_back({.bytes = bytes,
                         .size = paces.sizeOf(bytes),
                         .state = isHeld ? State::kReady : State::kAbsent,
                         .isChecked = isHeld});
      if (isHeld)
        memory.take(directory.idOf(layer, expert), bytes);
    }
  for (uint32_t layer = 0; layer < settings.prefetches.size(); ++layer) {
    const PrefetchRule &rule = settings.prefetches[layer];
    if (rule.predictor != Predictor::kOff)
      prefetchesAt[layer - rule.ahead].places.push_back(
          {layer, rule, findPredictions(problem, rule, layer)});
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
      sum += counts;
      if (options.keepsPasses && isCounted)
        result.passes.push_back({counts, beginNs, now});
    }
    token += tokens;
    counts = {};
    computeOperations(problem.costs->after.of(tokens));
    sum += counts;
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
  return result;
}

std::vector<std::vector<uint32_t>> Executor::heldExperts() const {
  std::vector<std::vector<uint32_t>> held(directory.layerCount());
  for (uint32_t layer = 0; layer < held.size(); ++layer)
    for (uint32_t expert = 0; expert < directory.expertsIn(layer); ++expert)
      if (experts[directory.idOf(layer, expert)].state != State::kAbsent)
        held[layer].push_back(expert);
  return held;
}

//===-- A layer pass
//--------------------------------------------------------------------------------===//

void Executor::executeLayer(const RoutingPass &pass) {
  counts = {};
  if (pass.beginsPrompt)
    beginPrompt();
  const StepCosts::Layer &costs = problem.costs->layers[pass.layer];
  computeOperations(costs.before.of(pass.tokens));
  if (pass.tokens == 1)
    prefetch(pass.layer);
  collect();
  beginNs = now;
  beginPass(pass);
  computeOperations(costs.beside.of(pass.tokens));
  for (size_t computed = 0; computed < wanted.size(); ++computed)
    computeExpert(pass, nextReady());
  endPass();
}

void Executor::beginPrompt() {
  while (disk.underWay() > 0)
    waitForRead();
  prefetchList.cancelAll();
  cancel();
  beginPromptIn(directory);
  for (uint32_t id = 0; id < experts.size(); ++id)
    if (!directory.at(id).isHeld && experts[id].state != State::kAbsent) {
      memory.giveBack(id);
      experts[id].state = State::kAbsent;
    }
}

/// What lies between experts: many short operations, after each of which the runtime looks at its
/// reads.
void Executor::computeOperations(double ns) {
  collect();
  startReads();
  while (ns > 0) {
    ns = computeUntilRead(ns);
    collect();
    startReads();
  }
}

void Executor::prefetch(uint32_t layer) {
  compute(prefetchesAt[layer].gatesNs);
  for (const PrefetchPlace &place : prefetchesAt[layer].places) {
    const size_t perToken = place.made->perToken;
    auto named = std::span(place.made->candidates).subspan(token * perToken, perToken);
    while (named.size() > 1 && named.back().expert == named[named.size() - 2].expert)
      named = named.first(named.size() - 1);
    prefetchList.name({place.layer, place.rule, named});
  }
}

void Executor::beginPass(const RoutingPass &pass) {
  const PassDemand demand = problem.trace->demandOf(pass);
  const bool isExecutable = directory.beginPass(pass.layer, demand);
  assert(isExecutable && "checked with the trace");
  (void)isExecutable;
  for (std::vector<uint32_t> *perPass : {&wanted, &toRead, &ready, &leaving})
    perPass->clear();
  nextRead = handedOut = nextLeaving = 0;
  for (uint32_t expert : demand.wanted) {
    wanted.push_back(directory.idOf(pass.layer, expert));
    counts.cache.hits += directory.at(wanted.back()).isHeld;
  }
  counts.cache.misses = wanted.size() - counts.cache.hits;
  settlePrefetches(pass.layer);
  queueReads();
  startReads();
}

void Executor::settlePrefetches(uint32_t layer) {
  prefetchList.beginPass(directory, layer);
  cancel();
  counts.cache.useful = prefetchList.useful().size();
  // A prefetch that was to make room for others, whose read has not ended before its own turn.
  for (uint32_t id : wanted)
    if (directory.at(id).isPrefetch) {
      directory.claimPrefetch(id);
      experts[id].isCancelled = false;
      ++counts.cache.useful;
    }
  prefetchList.select(directory);
  counts.cache.prefetchesRetained += prefetchList.retained().size();
  counts.cache.evictions += prefetchList.retained().size();
}

void Executor::queueReads() {
  for (uint32_t id : directory.unkept())
    if (directory.at(id).isHeld && !directory.at(id).isWanted)
      leaving.push_back(id);
  for (bool isKept : {false, true})
    for (uint32_t id : wanted)
      if (experts[id].state == State::kAbsent && directory.at(id).isKept == isKept)
        toRead.push_back(id);
  for (uint32_t index = 0; index < wanted.size(); ++index)
    if (experts[wanted[index]].state == State::kReady)
      ready.push_back(index);
  counts.ready = ready.size();
}

uint32_t Executor::nextReady() {
  collect();
  startReads();
  const bool isStalled = handedOut == ready.size();
  while (handedOut == ready.size()) {
    waitForRead();
    startReads();
  }
  counts.stalled += isStalled;
  return ready[handedOut++];
}

void Executor::waitForRead() {
  const double before = now;
  now = disk.nextEndNs();
  counts.waitNs += now - before;
  collect();
}

void Executor::computeExpert(const RoutingPass &pass, uint32_t index) {
  const StepCosts::Layer &costs = problem.costs->layers[pass.layer];
  const uint32_t id = wanted[index];
  if (!experts[id].isChecked)
    checkReady(costs.checks);
  compute(costs.expert.of(problem.trace->demandOf(pass).uses[index]));
  if (!directory.at(id).isKept)
    leaving.push_back(id);
  startReads();
}

/// The expert that was handed out last and, if threads are left, those that are ready behind it.
void Executor::checkReady(const CheckCost &checks) {
  uint32_t checked = 0;
  for (size_t i = handedOut - 1; i < ready.size() && checked < checks.together(); ++i)
    checked += !std::exchange(experts[wanted[ready[i]]].isChecked, true);
  compute(checks.of(checked));
}

void Executor::endPass() {
  for (; nextLeaving < leaving.size(); ++nextLeaving)
    evict(leaving[nextLeaving]);
  directory.endPass();
  startReads();
}

//===-- Reads ---------------------------------------------------------------------------------===//

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
    counts.computeNs += ns;
    return 0;
  }
  const double fraction = contention.computingWhileReading;
  const double before = now, end = disk.nextEndNs(contention.readingWhileComputing);
  now = std::min(before + ns / fraction, end);
  counts.computeNs += now - before;
  disk.advanceTo(now, ended, contention.readingWhileComputing);
  return now < end ? 0 : ns - (now - before) * fraction;
}

void Executor::collect() {
  disk.advanceTo(now, ended);
  for (uint32_t id : ended) {
    experts[id].state = State::kReady;
    prefetchesUnderWay -= std::exchange(experts[id].isReadAsPrefetch, false);
    if (!directory.at(id).isPrefetch)
      ready.push_back(directory.at(id).history.rank);
    else if (experts[id].isCancelled)
      dropPrefetch(id);
  }
  ended.clear();
}

void Executor::startReads() {
  for (; nextRead < toRead.size() && readsUnderWay() < kMostReads; ++nextRead) {
    while (!directory.hasRoomFor(toRead[nextRead])) {
      if (nextLeaving == leaving.size())
        return;
      evict(leaving[nextLeaving++]);
    }
    directory.hold(toRead[nextRead]);
    startRead(toRead[nextRead]);
  }
  if (nextRead == toRead.size())
    startPrefetches();
}

/// What leaves anyway leaves early.
void Executor::startPrefetches() {
  while (prefetchList.hasNext() && prefetchesUnderWay < kMostPrefetchReads &&
         readsUnderWay() < kMostReads) {
    const uint32_t id = prefetchList.next();
    while (!directory.hasRoomForPrefetch(id) && nextLeaving < leaving.size())
      evict(leaving[nextLeaving++]);
    if (!directory.hasRoomForPrefetch(id))
      return;
    prefetchList.begin(directory);
    startRead(id);
    experts[id].isReadAsPrefetch = true;
    ++prefetchesUnderWay;
    ++counts.cache.prefetchesRead;
    counts.cache.prefetchBytes += experts[id].bytes;
  }
}

void Executor::startRead(uint32_t id) {
  experts[id].state = State::kLoading;
  experts[id].isChecked = false;
  disk.advanceTo(now, ended);
  disk.begin(id, experts[id].size, memory.take(id, experts[id].bytes));
  compute(problem.costs->contention.submitNsPerByte * static_cast<double>(experts[id].bytes));
  counts.cache.bytesRead += experts[id].bytes;
}

void Executor::cancel() {
  for (uint32_t id : prefetchList.cancelled())
    if (experts[id].state == State::kReady)
      dropPrefetch(id);
    else
      experts[id].isCancelled = true;
}

void Executor::dropPrefetch(uint32_t id) {
  directory.dropPrefetch(id);
  memory.giveBack(id);
  experts[id].state = State::kAbsent;
  experts[id].isCancelled = false;
  ++counts.cache.cancelled;
}

void Executor::evict(uint32_t id) {
  directory.drop(id);
  memory.giveBack(id);
  experts[id].state = State::kAbsent;
  ++counts.cache.evictions;
}

} // namespace

Result<TimedResult> replayInTime(const PlanProblem &problem, const PlanSettings &settings,
                                 const TimedOptions &options) {
  MOERT_RETURN_IF_ERROR(verify(problem, settings));
  const ReplayCache cache = replayCacheOf(problem, settings);
  MOERT_ASSIGN_OR_RETURN(CacheReplay filled, CacheReplay::create(cache));
  const uint64_t startBytes = filled.startBytes();
  const DirectorySize size = directorySizeOf(cache);
  TimedResult result =
      Executor(problem, settings, std::move(filled).takeState(), size).runPass(options);
  result.startBytes = startBytes;
  return result;
}

} // namespace moec
