#include "runtime/serving/Scheduler.h"

#include "runtime/base/Clock.h"

#include <algorithm>
#include <new>

namespace moert {

/// How long they are looked for while there is nothing to compute, between looks at what arrives.
constexpr uint64_t kIdleChoosingNs = 10'000'000;

Scheduler::Scheduler(Engine &loadedEngine, const SchedulerLimits &schedulerLimits,
                     Clock engineClock)
    : engine(loadedEngine), limits(schedulerLimits), clock(engineClock) {}

Scheduler::~Scheduler() {
  cancelAll();
}

void Scheduler::countEnd(AnswerEnd end) {
  switch (end) {
  case AnswerEnd::kStop:
    ++counts.stopped;
    break;
  case AnswerEnd::kLength:
    ++counts.full;
    break;
  case AnswerEnd::kCancelled:
    ++counts.cancelled;
    break;
  case AnswerEnd::kRejected:
    ++counts.rejected;
    break;
  case AnswerEnd::kNoMemory:
  case AnswerEnd::kFailed:
    ++counts.failed;
    break;
  }
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  try {
    waiting.push_back(std::move(sequence));
  } catch (const std::bad_alloc &) { // Then it has not been moved.
    sequence->endAs(AnswerEnd::kNoMemory, outOfMemory());
    countEnd(AnswerEnd::kNoMemory);
  }
}

void Scheduler::dropCancelled() {
  auto isDropped = [&](const std::unique_ptr<Sequence> &sequence) {
    if (!sequence->answer().isCancelled())
      return false;
    sequence->endAs(AnswerEnd::kCancelled);
    countEnd(AnswerEnd::kCancelled);
    return true;
  };
  std::erase_if(running, isDropped);
  std::erase_if(waiting, isDropped);
}

void Scheduler::cancelAll() {
  for (const auto &sequence : running)
    sequence->answer().cancel();
  for (const auto &sequence : waiting)
    sequence->answer().cancel();
  dropCancelled();
}

void Scheduler::failRunning() {
  for (const auto &sequence : running) {
    sequence->endAs(AnswerEnd::kNoMemory, outOfMemory());
    countEnd(AnswerEnd::kNoMemory);
  }
  running.clear();
}

/// What the session has of the memory for all.
static uint32_t tokensOf(const Session &session) {
  return Engine::sessionTokensFor(session.capacity());
}

uint64_t Scheduler::keptTokens() const {
  uint64_t tokens = 0;
  for (const Kept &one : kept)
    tokens += tokensOf(*one.session);
  return tokens;
}

uint64_t Scheduler::runningTokens() const {
  uint64_t tokens = 0;
  for (const auto &sequence : running)
    tokens += tokensOf(*sequence->session());
  return tokens;
}

uint64_t Scheduler::freeTokens() const {
  const uint64_t taken = runningTokens() + keptTokens();
  return limits.sessionTokens - std::min(limits.sessionTokens, taken);
}

// Scores of a prompt are passed on as they are computed: it is not computed twice.
uint32_t Scheduler::roomFor(const Sequence &sequence) const {
  const uint32_t most = sequence.mostTokens();
  if (sequence.request().scoresPrompt)
    return most;
  const auto have = static_cast<uint32_t>(sequence.tokens().size());
  return std::min(most, have + std::max(limits.growth, sequence.generatedTokens()));
}

void Scheduler::interrupt(Sequence &sequence) {
  const auto found = std::find_if(running.begin(), running.end(),
                                  [&](const auto &one) { return one.get() == &sequence; });
  sequence.releaseSession();
  // Those that were admitted before wait first, in the same order.
  const auto place = std::find_if(waiting.begin(), waiting.end(), [&](const auto &other) {
    return other->place.arrival == 0 || other->place.arrival > sequence.place.arrival;
  });
  waiting.insert(place, std::move(*found));
  running.erase(found);
  ++counts.interrupted;
}

bool Scheduler::freeFor(uint32_t tokens, const Sequence &sequence) {
  auto isLater = [&](const std::unique_ptr<Sequence> &other) {
    return !other->request().scoresPrompt && other->place.arrival > sequence.place.arrival;
  };
  uint64_t most = freeTokens() + keptTokens();
  for (const auto &other : running)
    most += isLater(other) ? tokensOf(*other->session()) : 0;
  if (tokens > most)
    return false;
  while (!kept.empty() &&
         (tokens > freeTokens() || running.size() + kept.size() >= limits.sessions()))
    kept.pop_front();
  while (tokens > freeTokens()) {
    Sequence *last = nullptr;
    for (const auto &other : running)
      if (isLater(other) && (!last || other->place.arrival > last->place.arrival))
        last = other.get();
    interrupt(*last);
  }
  return true;
}

// With another session the old one is copied; without room for both, its tokens are computed again.
void Scheduler::grow(Sequence &sequence) {
  const uint32_t tokens = Engine::sessionTokensFor(roomFor(sequence));
  if (!freeFor(tokens, sequence))
    return interrupt(sequence);
  Result<std::unique_ptr<Session>> larger = engine.createSession(roomFor(sequence));
  Status moved = larger.status();
  if (moved.isOk())
    moved = engine.copyPrefix(*sequence.session(), **larger, sequence.session()->length());
  if (!moved.isOk())
    return interrupt(sequence);
  sequence.moveTo(std::move(larger).value());
}

void Scheduler::growFull() {
  std::vector<Sequence *> full; // Those that came first grow first.
  for (const auto &sequence : running)
    if (sequence->tokens().size() > sequence->session()->capacity())
      full.push_back(sequence.get());
  std::sort(full.begin(), full.end(), [](const Sequence *a, const Sequence *b) {
    return a->place.arrival < b->place.arrival;
  });
  for (Sequence *sequence : full)
    if (sequence->session()) // Not interrupted for an earlier one.
      grow(*sequence);
}

void Scheduler::makeRoom(uint32_t tokens, uint64_t &except) {
  while (tokens > freeTokens()) {
    auto oldest =
        std::find_if(kept.begin(), kept.end(), [&](const Kept &one) { return one.id != except; });
    if (oldest == kept.end()) {
      oldest = kept.begin();
      except = 0;
    }
    kept.erase(oldest);
  }
}

bool Scheduler::begin(Sequence &sequence) {
  const uint32_t tokens = Engine::sessionTokensFor(roomFor(sequence));
  if (runningTokens() + tokens > limits.sessionTokens)
    return false;
  Prefix prefix = longestPrefix(sequence);
  if (waitsForPrefix(sequence, prefix))
    return false;
  uint64_t source = prefix.keptId;
  makeRoom(tokens, source);
  if (source != prefix.keptId)
    prefix = {};
  auto create = [&]() -> Result<std::unique_ptr<Session>> {
    MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                           engine.createSession(roomFor(sequence)));
    if (prefix.tokens > 0)
      MOERT_RETURN_IF_ERROR(engine.copyPrefix(*prefix.session, *session, prefix.tokens));
    return session;
  };
  Result<std::unique_ptr<Session>> session = create();
  if (!session.isOk()) {
    failFirst(AnswerEnd::kFailed, session.status());
    return true;
  }
  // What was used is ended last.
  const auto used = std::find_if(kept.begin(), kept.end(),
                                 [&](const Kept &one) { return one.id == prefix.keptId; });
  if (used != kept.end())
    std::rotate(used, used + 1, kept.end());
  sequence.place.stops = stopsFor(sequence, prefix);
  if (const Status begun = sequence.begin(std::move(session).value(), choices); !begun.isOk()) {
    failFirst(AnswerEnd::kFailed, begun);
    return true;
  }
  if (sequence.place.arrival == 0)
    sequence.place.arrival = ++lastArrival;
  counts.cachedTokens += prefix.tokens;
  running.push_back(std::move(waiting.front()));
  waiting.pop_front();
  return true;
}

void Scheduler::failFirst(AnswerEnd how, const Status &status) {
  waiting.front()->endAs(how, status);
  countEnd(how);
  waiting.pop_front();
}

void Scheduler::admit() {
  while (!waiting.empty() && running.size() < limits.running) {
    try {
      if (!begin(*waiting.front()))
        return;
    } catch (const std::bad_alloc &) {
      // If it stayed the first, it would fail all later steps, and with them those that run.
      failFirst(AnswerEnd::kNoMemory, outOfMemory());
    }
  }
}

SchedulerNumbers Scheduler::numbers() const {
  SchedulerNumbers numbers = counts;
  numbers.running = static_cast<uint32_t>(running.size());
  numbers.waiting = static_cast<uint32_t>(waiting.size());
  numbers.sessionTokens = runningTokens();
  numbers.budgetBytes = engine.account().budgetBytes;
  return numbers;
}

static uint32_t tokensToStop(Sequence &sequence) {
  uint32_t tokens = UINT32_MAX;
  const uint32_t length = sequence.session()->length();
  for (const Sequence::Stop &stop : sequence.place.stops)
    if (stop.tokens > length)
      tokens = std::min(tokens, stop.tokens - length);
  return tokens;
}

// Generating sequences come first: the rows whose logits are needed then follow each other, and the
// head computes them together. Where the engine's chunk has no room for a token of each, which a
// requested chunk may be too small for, those left out come first the next time.
void Scheduler::makeBatch() {
  batch.clear();
  stepping.clear();
  auto append = [&](Sequence &sequence, uint32_t most) {
    batch.push_back(sequence.part(most));
    stepping.push_back(&sequence);
    return static_cast<uint32_t>(batch.back().tokens.size());
  };
  uint32_t room = engine.prefillChunk();
  auto hasPart = [](const Sequence &sequence) {
    return !sequence.isChoosing() && !sequence.isPaused();
  };
  const auto generating = static_cast<uint32_t>(
      std::count_if(running.begin(), running.end(), [&](const auto &sequence) {
        return !sequence->isPrefilling() && hasPart(*sequence);
      }));
  // For tokens ahead, which a state cannot go back from, and a miss rule would compute otherwise.
  uint32_t spare = engine.hasStates() || engine.isLossy() ? 0 : room - std::min(room, generating);
  for (bool isPrefilling : {false, true})
    for (const auto &sequence : running) {
      if (room == 0 || sequence->isPrefilling() != isPrefilling || !hasPart(*sequence))
        continue;
      const uint32_t most = isPrefilling ? std::min(room, tokensToStop(*sequence)) : 1 + spare;
      const uint32_t count = append(*sequence, most);
      room -= count;
      spare -= isPrefilling ? 0 : count - 1;
      counts.promptTokens += isPrefilling ? count : 0;
    }
  // Those that had a part are last the next time.
  std::stable_partition(running.begin(), running.end(), [&](const auto &sequence) {
    return std::find(stepping.begin(), stepping.end(), sequence.get()) == stepping.end();
  });
}

Status Scheduler::onLogits(Session &session, uint32_t position, std::span<const float> logits) {
  for (Sequence *sequence : stepping)
    if (sequence->session() == &session)
      sequence->takeLogits(position, logits);
  return {};
}

void Scheduler::finish(Sequence &sequence) {
  const uint32_t before = sequence.generatedTokens();
  const std::optional<AnswerEnd> end = sequence.finishStep();
  counts.generatedTokens += sequence.generatedTokens() - before;
  if (!end)
    return;
  countEnd(*end);
  const auto found = std::find_if(running.begin(), running.end(),
                                  [&](const auto &other) { return other.get() == &sequence; });
  // Taken out first: without memory to keep it, it would end and count once more.
  const std::unique_ptr<Sequence> ended = std::move(*found);
  running.erase(found);
  if (*end == AnswerEnd::kStop || *end == AnswerEnd::kLength)
    keep(*ended);
}

void Scheduler::finishStep(const Status &computed) {
  for (Sequence *sequence : stepping) {
    if (computed.isOk()) {
      takeStops(*sequence);
      finish(*sequence);
      continue;
    }
    sequence->endAs(AnswerEnd::kFailed, computed);
    countEnd(AnswerEnd::kFailed);
    std::erase_if(running, [&](const auto &other) { return other.get() == sequence; });
  }
}

// In turn, so that no sequence waits for the end of a longer search; each has a part at least.
bool Scheduler::chooseTokens(uint64_t availableNs) {
  std::vector<Sequence *> choosing;
  for (const auto &sequence : running)
    if (sequence->isChoosing())
      choosing.push_back(sequence.get());
  const bool isAny = !choosing.empty();
  const uint64_t begin = clock();
  while (!choosing.empty()) {
    std::erase_if(choosing, [&](Sequence *sequence) {
      sequence->choose(kChoosingSteps);
      if (sequence->isChoosing())
        return false;
      finish(*sequence);
      return true;
    });
    if (clock() - begin >= availableNs)
      break;
  }
  return isAny;
}

bool Scheduler::hasPaused() const {
  return std::any_of(running.begin(), running.end(),
                     [](const auto &sequence) { return sequence->isPaused(); });
}

bool Scheduler::step() {
  dropCancelled();
  growFull();
  admit();
  makeBatch();
  if (batch.empty())
    return chooseTokens(kIdleChoosingNs);
  const uint64_t begin = clock();
  const Status computed = engine.step(batch, *this);
  const uint64_t stepNs = clock() - begin;
  counts.stepNs += stepNs;
  ++counts.steps;
  for (const LayerProfile &layer : engine.lastStep()) {
    counts.bytesRead += layer.bytesRead;
    counts.hits += layer.hits;
    counts.misses += layer.misses;
  }
  finishStep(computed);
  chooseTokens(stepNs / 4);
  return true;
}

} // namespace moert
