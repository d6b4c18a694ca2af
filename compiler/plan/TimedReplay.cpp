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
  present += other.present;
  awaited += other.awaited;
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

double TimedResult::quantileNs(double share) const {
  if (tokenNs.empty())
    return 0;
  std::vector<double> sorted = tokenNs;
  double rank = std::ceil(share * static_cast<double>(sorted.size()));
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
  bool isReadAsGuess = false; // While it is loading.
  bool isRefuted = false;     // A guess that is let go when its read ends.
};

/// What is guessed at a layer's turn.
struct GuessPlace {
  uint32_t layer = 0; // The one that is guessed.
  GuessRule rule;
  const LayerPredictions *made = nullptr;
};

/// What a layer guesses, and what its gates take together.
struct LayerGuesses {
  std::vector<GuessPlace> places;
  double gatesNs = 0;
};

/// One replay: does what ExpertCache does, with a clock of its own.
///
/// Invariants, between calls: an expert is not absent if and only if the directory has pages for
/// it, as held or as a guess; it is loading if and only if its read was begun and not yet taken.
class Player {
public:
  Player(const PlanProblem &given, const PlanSettings &settings, CacheDirectory filled,
         const DirectorySize &size);
  TimedResult play(const TimedOptions &options);

private:
  using State = ExpertBytes::State;

  std::vector<std::vector<uint32_t>> heldExperts() const;
  void playLayer(const RoutingPlay &play);
  void beginPrompt();
  void computeOperations(double ns);
  void guess(uint32_t layer);
  void beginPlay(const RoutingPlay &play);
  void settleGuesses(uint32_t layer);
  void queueReads();
  void computeExpert(const RoutingPlay &play, uint32_t index);
  void checkReady(const CheckCost &checks);
  void endPlay();
  /// The next wanted expert that is there, waiting for it if need be; an index into the demand.
  uint32_t nextReady();
  void waitForRead();
  void compute(double ns);
  double computeUntilRead(double ns);
  void collect();
  void startReads();
  void startGuesses();
  void startRead(uint32_t id);
  size_t readsUnderWay() const { return disk.underWay() + ended.size(); }
  void refute();
  void dropGuess(uint32_t id);
  void evict(uint32_t id);

  const PlanProblem &problem;
  CacheDirectory directory;
  GuessList guessList;
  std::vector<LayerGuesses> guessesAt; // By the layer that makes them.
  ReadPaces paces;
  DiskTimeline disk;
  PoolPlaces memory;
  std::vector<ExpertBytes> experts; // By the directory's ids.
  std::vector<uint32_t> ended;      // Reads that have ended and were not taken yet.
  size_t guessesUnderWay = 0;       // Reads that were begun as guesses.
  double now = 0;
  uint64_t token = 0; // Of the trace: the step's first one.

  // The open play, as in ExpertCache.
  std::vector<uint32_t> wanted, toRead, ready, leaving;
  size_t nextRead = 0, handedOut = 0, nextLeaving = 0;
  TimedCounts counts;
  double beginNs = 0;
};

/// At most one of a layer reaches as far ahead as another, so that there are kMostAhead at most.
static double gatesNs(const StepCosts &costs, std::span<const GuessPlace> places) {
  auto isGate = [](const GuessPlace &place) { return place.rule.predictor == Predictor::kGate; };
  const auto gates = static_cast<size_t>(std::ranges::count_if(places, isGate));
  double sum = 0;
  for (const GuessPlace &place : places)
    if (isGate(place))
      sum += costs.layers[place.layer].predictNs[gates - 1];
  return sum;
}

Player::Player(const PlanProblem &given, const PlanSettings &settings, CacheDirectory filled,
               const DirectorySize &size)
    : problem(given), directory(std::move(filled)), guessList(size), guessesAt(size.layers),
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
  for (uint32_t layer = 0; layer < settings.guesses.size(); ++layer) {
    const GuessRule &rule = settings.guesses[layer];
    if (rule.predictor != Predictor::kOff)
      guessesAt[layer - rule.ahead].places.push_back(
          {layer, rule, findPredictions(problem, rule, layer)});
  }
  for (LayerGuesses &guesses : guessesAt)
    guesses.gatesNs = gatesNs(*problem.costs, guesses.places);
}

TimedResult Player::play(const TimedOptions &options) {
  TimedResult result;
  const RoutingTrace &trace = *problem.trace;
  const size_t layers = trace.layerExperts.size();
  const size_t steps = std::min(options.steps, trace.plays.size() / layers);
  TimedCounts uncounted;
  for (size_t step = 0; step < steps; ++step) {
    const std::span<const RoutingPlay> plays(&trace.plays[step * layers], layers);
    const uint32_t tokens = plays.front().tokens;
    const bool isCounted = step >= options.fromStep;
    TimedCounts &sum = !isCounted ? uncounted : tokens == 1 ? result.decode : result.prefill;
    if (step == options.fromStep)
      result.heldBefore = heldExperts();
    const double begin = now;
    for (const RoutingPlay &play : plays) {
      playLayer(play);
      sum += counts;
      if (options.keepsPlays && isCounted)
        result.plays.push_back({counts, beginNs, now});
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

std::vector<std::vector<uint32_t>> Player::heldExperts() const {
  std::vector<std::vector<uint32_t>> held(directory.layerCount());
  for (uint32_t layer = 0; layer < held.size(); ++layer)
    for (uint32_t expert = 0; expert < directory.expertsIn(layer); ++expert)
      if (experts[directory.idOf(layer, expert)].state != State::kAbsent)
        held[layer].push_back(expert);
  return held;
}

//===-- A play --------------------------------------------------------------------------------===//

void Player::playLayer(const RoutingPlay &play) {
  counts = {};
  if (play.beginsPrompt)
    beginPrompt();
  const StepCosts::Layer &costs = problem.costs->layers[play.layer];
  computeOperations(costs.before.of(play.tokens));
  if (play.tokens == 1)
    guess(play.layer);
  collect();
  beginNs = now;
  beginPlay(play);
  computeOperations(costs.beside.of(play.tokens));
  for (size_t computed = 0; computed < wanted.size(); ++computed)
    computeExpert(play, nextReady());
  endPlay();
}

void Player::beginPrompt() {
  while (disk.underWay() > 0)
    waitForRead();
  guessList.refuteAll();
  refute();
  beginPromptIn(directory);
  for (uint32_t id = 0; id < experts.size(); ++id)
    if (!directory.at(id).isHeld && experts[id].state != State::kAbsent) {
      memory.giveBack(id);
      experts[id].state = State::kAbsent;
    }
}

/// What lies between experts: many short operations, after each of which the runtime looks at its
/// reads.
void Player::computeOperations(double ns) {
  collect();
  startReads();
  while (ns > 0) {
    ns = computeUntilRead(ns);
    collect();
    startReads();
  }
}

void Player::guess(uint32_t layer) {
  compute(guessesAt[layer].gatesNs);
  for (const GuessPlace &place : guessesAt[layer].places) {
    const size_t perToken = place.made->perToken;
    auto named = std::span(place.made->candidates).subspan(token * perToken, perToken);
    while (named.size() > 1 && named.back().expert == named[named.size() - 2].expert)
      named = named.first(named.size() - 1);
    guessList.name({place.layer, place.rule, named});
  }
}

void Player::beginPlay(const RoutingPlay &play) {
  const PlayDemand demand = problem.trace->demandOf(play);
  const bool isPlayable = directory.beginPlay(play.layer, demand);
  assert(isPlayable && "checked with the trace");
  (void)isPlayable;
  for (std::vector<uint32_t> *perPlay : {&wanted, &toRead, &ready, &leaving})
    perPlay->clear();
  nextRead = handedOut = nextLeaving = 0;
  for (uint32_t expert : demand.wanted) {
    wanted.push_back(directory.idOf(play.layer, expert));
    counts.cache.hits += directory.at(wanted.back()).isHeld;
  }
  counts.cache.misses = wanted.size() - counts.cache.hits;
  settleGuesses(play.layer);
  queueReads();
  startReads();
}

void Player::settleGuesses(uint32_t layer) {
  guessList.beginPlay(directory, layer);
  refute();
  counts.cache.adopted = guessList.adopted().size();
  // A guess that was to make room for others, whose read has not ended before its own turn.
  for (uint32_t id : wanted)
    if (directory.at(id).isGuess) {
      directory.adoptGuess(id);
      experts[id].isRefuted = false;
      ++counts.cache.adopted;
    }
  guessList.select(directory);
  counts.cache.guessesRetained += guessList.retained().size();
  counts.cache.evictions += guessList.retained().size();
}

void Player::queueReads() {
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
  counts.present = ready.size();
}

uint32_t Player::nextReady() {
  collect();
  startReads();
  const bool isAwaited = handedOut == ready.size();
  while (handedOut == ready.size()) {
    waitForRead();
    startReads();
  }
  counts.awaited += isAwaited;
  return ready[handedOut++];
}

void Player::waitForRead() {
  const double before = now;
  now = disk.nextEndNs();
  counts.waitNs += now - before;
  collect();
}

void Player::computeExpert(const RoutingPlay &play, uint32_t index) {
  const StepCosts::Layer &costs = problem.costs->layers[play.layer];
  const uint32_t id = wanted[index];
  if (!experts[id].isChecked)
    checkReady(costs.checks);
  compute(costs.expert.of(problem.trace->demandOf(play).uses[index]));
  if (!directory.at(id).isKept)
    leaving.push_back(id);
  startReads();
}

/// The expert that was handed out last and, if threads are left, those that are ready behind it.
void Player::checkReady(const CheckCost &checks) {
  uint32_t checked = 0;
  for (size_t i = handedOut - 1; i < ready.size() && checked < checks.together(); ++i)
    checked += !std::exchange(experts[wanted[ready[i]]].isChecked, true);
  compute(checks.of(checked));
}

void Player::endPlay() {
  for (; nextLeaving < leaving.size(); ++nextLeaving)
    evict(leaving[nextLeaving]);
  directory.endPlay();
  startReads();
}

//===-- Reads ---------------------------------------------------------------------------------===//

/// Computes what takes so long alone, in one go: reads that end meanwhile are looked at afterwards.
void Player::compute(double ns) {
  while (ns > 0)
    ns = computeUntilRead(ns);
}

/// The same until a read ends; what is left of it then. While reads are under way both are slower.
double Player::computeUntilRead(double ns) {
  const Contention &contention = problem.costs->contention;
  if (disk.underWay() == 0) {
    now += ns;
    counts.computeNs += ns;
    return 0;
  }
  const double share = contention.computingWhileReading;
  const double before = now, end = disk.nextEndNs(contention.readingWhileComputing);
  now = std::min(before + ns / share, end);
  counts.computeNs += now - before;
  disk.advanceTo(now, ended, contention.readingWhileComputing);
  return now < end ? 0 : ns - (now - before) * share;
}

void Player::collect() {
  disk.advanceTo(now, ended);
  for (uint32_t id : ended) {
    experts[id].state = State::kReady;
    guessesUnderWay -= std::exchange(experts[id].isReadAsGuess, false);
    if (!directory.at(id).isGuess)
      ready.push_back(directory.at(id).history.rank);
    else if (experts[id].isRefuted)
      dropGuess(id);
  }
  ended.clear();
}

void Player::startReads() {
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
    startGuesses();
}

/// What leaves anyway leaves early.
void Player::startGuesses() {
  while (guessList.hasNext() && guessesUnderWay < kMostGuessReads && readsUnderWay() < kMostReads) {
    const uint32_t id = guessList.next();
    while (!directory.hasRoomForGuess(id) && nextLeaving < leaving.size())
      evict(leaving[nextLeaving++]);
    if (!directory.hasRoomForGuess(id))
      return;
    guessList.begin(directory);
    startRead(id);
    experts[id].isReadAsGuess = true;
    ++guessesUnderWay;
    ++counts.cache.guessesRead;
    counts.cache.guessBytes += experts[id].bytes;
  }
}

void Player::startRead(uint32_t id) {
  experts[id].state = State::kLoading;
  experts[id].isChecked = false;
  disk.advanceTo(now, ended);
  disk.begin(id, experts[id].size, memory.take(id, experts[id].bytes));
  compute(problem.costs->contention.submitNsPerByte * static_cast<double>(experts[id].bytes));
  counts.cache.bytesRead += experts[id].bytes;
}

void Player::refute() {
  for (uint32_t id : guessList.refuted())
    if (experts[id].state == State::kReady)
      dropGuess(id);
    else
      experts[id].isRefuted = true;
}

void Player::dropGuess(uint32_t id) {
  directory.dropGuess(id);
  memory.giveBack(id);
  experts[id].state = State::kAbsent;
  experts[id].isRefuted = false;
  ++counts.cache.refuted;
}

void Player::evict(uint32_t id) {
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
  TimedResult result = Player(problem, settings, std::move(filled).takeState(), size).play(options);
  result.startBytes = startBytes;
  return result;
}

} // namespace moec
