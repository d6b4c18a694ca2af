#include "runtime/serving/Scheduler.h"

#include "runtime/base/Clock.h"

#include <algorithm>

namespace moert {

/// A common beginning has to be at least that long: most texts share a token or two.
constexpr uint32_t kLeastPrefix = 16;

static uint32_t commonTokens(const std::vector<int32_t> &a, const std::vector<int32_t> &b) {
  return static_cast<uint32_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                               a.begin());
}

Scheduler::Scheduler(Engine &loadedEngine, const SchedulerLimits &schedulerLimits)
    : engine(loadedEngine), limits(schedulerLimits) {}

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
  case AnswerEnd::kFailed:
    ++counts.failed;
    break;
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

uint64_t Scheduler::keptTokens() const {
  uint64_t tokens = 0;
  for (const Kept &one : kept)
    tokens += one.reserved;
  return tokens;
}

// The last token of a prompt is always computed: its logits are needed. States exist for whole
// sequences only.
uint32_t Scheduler::usableTokens(const std::vector<int32_t> &computed, const Session &session,
                                 const Sequence &sequence) const {
  const std::vector<int32_t> &prompt = sequence.request().prompt;
  const auto most = static_cast<uint32_t>(prompt.size() - 1);
  const uint32_t common = std::min({commonTokens(computed, prompt), most, session.length()});
  if (common < kLeastPrefix || (engine.hasStates() && common != session.length()))
    return 0;
  return common;
}

Scheduler::Prefix Scheduler::longestPrefix(const Sequence &sequence) const {
  Prefix best;
  if (sequence.request().scoresPrompt) // Needs the logits of all its tokens.
    return best;
  auto consider = [&](const std::vector<int32_t> &computed, Session &session, uint64_t keptId) {
    const uint32_t tokens = usableTokens(computed, session, sequence);
    if (tokens > best.tokens)
      best = {&session, tokens, keptId};
  };
  for (const Kept &one : kept)
    consider(one.tokens, *one.session, one.id);
  for (const auto &other : running)
    consider(other->request().prompt, *other->session(), 0);
  return best;
}

bool Scheduler::waitsForPrefix(const Sequence &sequence, const Prefix &prefix) const {
  const std::vector<int32_t> &prompt = sequence.request().prompt;
  const auto most = static_cast<uint32_t>(prompt.size() - 1);
  return !sequence.request().scoresPrompt && !engine.hasStates() &&
         std::any_of(running.begin(), running.end(), [&](const auto &other) {
           const uint32_t later = std::min(commonTokens(other->request().prompt, prompt), most);
           return later >= kLeastPrefix && later > prefix.tokens &&
                  later > other->session()->length();
         });
}

void Scheduler::makeRoom(uint32_t tokens, uint64_t &except) {
  while (tokens > limits.sessionTokens - counts.sessionTokens - keptTokens()) {
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
  const uint32_t tokens = Engine::sessionTokensFor(sequence.mostTokens());
  if (tokens > limits.sessionTokens - counts.sessionTokens)
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
                           engine.createSession(sequence.mostTokens()));
    if (prefix.tokens > 0)
      MOERT_RETURN_IF_ERROR(engine.copyPrefix(*prefix.session, *session, prefix.tokens));
    return session;
  };
  Result<std::unique_ptr<Session>> session = create();
  if (!session.isOk()) {
    sequence.endAs(AnswerEnd::kFailed, session.status());
    countEnd(AnswerEnd::kFailed);
    waiting.pop_front();
    return true;
  }
  // What was used is ended last.
  const auto used = std::find_if(kept.begin(), kept.end(),
                                 [&](const Kept &one) { return one.id == prefix.keptId; });
  if (used != kept.end())
    std::rotate(used, used + 1, kept.end());
  sequence.begin(std::move(session).value());
  counts.cachedTokens += prefix.tokens;
  counts.sessionTokens += tokens;
  running.push_back(std::move(waiting.front()));
  waiting.pop_front();
  return true;
}

void Scheduler::keep(Sequence &sequence) {
  if (limits.kept == 0)
    return;
  std::vector<int32_t> tokens = sequence.computedTokens();
  if (tokens.size() < kLeastPrefix)
    return;
  // One that the new one continues is of no more use.
  std::erase_if(kept, [&](const Kept &one) {
    return one.tokens.size() <= tokens.size() &&
           commonTokens(one.tokens, tokens) == one.tokens.size();
  });
  if (kept.size() == limits.kept)
    kept.pop_front();
  kept.push_back({++lastKeptId, Engine::sessionTokensFor(sequence.mostTokens()), std::move(tokens),
                  sequence.releaseSession()});
}

void Scheduler::admit() {
  counts.sessionTokens = 0;
  for (const auto &sequence : running)
    counts.sessionTokens += Engine::sessionTokensFor(sequence->mostTokens());
  while (!waiting.empty() && running.size() < limits.running && begin(*waiting.front())) {
  }
}

SchedulerNumbers Scheduler::numbers() const {
  SchedulerNumbers numbers = counts;
  numbers.running = static_cast<uint32_t>(running.size());
  numbers.waiting = static_cast<uint32_t>(waiting.size());
  numbers.budgetBytes = engine.account().budgetBytes;
  return numbers;
}

// Generating sequences come first: the rows whose logits are needed then follow each other, and the
// head computes them together. An engine's chunk has room for a token of each of its sessions.
void Scheduler::makeBatch() {
  batch.clear();
  stepping.clear();
  auto append = [&](Sequence &sequence, uint32_t most) {
    batch.push_back(sequence.part(most));
    stepping.push_back(&sequence);
    return static_cast<uint32_t>(batch.back().tokens.size());
  };
  uint32_t room = engine.prefillChunk();
  for (const auto &sequence : running)
    if (!sequence->isPrefilling())
      room -= append(*sequence, 1);
  for (const auto &sequence : running)
    if (room > 0 && sequence->isPrefilling()) {
      const uint32_t count = append(*sequence, room);
      room -= count;
      counts.promptTokens += count;
    }
  // Prompts that had a part are last the next time.
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

void Scheduler::finishStep(const Status &computed) {
  for (Sequence *sequence : stepping) {
    const uint32_t before = sequence->generatedTokens();
    std::optional<AnswerEnd> end;
    if (!computed.isOk()) {
      sequence->endAs(AnswerEnd::kFailed, computed);
      end = AnswerEnd::kFailed;
    } else {
      end = sequence->finishStep();
    }
    counts.generatedTokens += sequence->generatedTokens() - before;
    if (!end)
      continue;
    countEnd(*end);
    if (*end == AnswerEnd::kStop || *end == AnswerEnd::kLength)
      keep(*sequence);
    std::erase_if(running, [&](const auto &other) { return other.get() == sequence; });
  }
}

bool Scheduler::step() {
  dropCancelled();
  admit();
  makeBatch();
  if (batch.empty())
    return false;
  const uint64_t begin = monotonicNs();
  const Status computed = engine.step(batch, *this);
  counts.stepNs += monotonicNs() - begin;
  ++counts.steps;
  for (const LayerProfile &layer : engine.lastStep()) {
    counts.bytesRead += layer.bytesRead;
    counts.hits += layer.hits;
    counts.misses += layer.misses;
  }
  finishStep(computed);
  return true;
}

} // namespace moert
