#include "runtime/serving/Scheduler.h"

#include "runtime/base/Clock.h"

#include <algorithm>

namespace moert {

Scheduler::Scheduler(Engine &loadedEngine, uint32_t sequences, uint64_t sessionTokens)
    : engine(loadedEngine), mostRunning(sequences), mostSessionTokens(sessionTokens) {}

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

void Scheduler::admit() {
  counts.sessionTokens = 0;
  for (const auto &sequence : running)
    counts.sessionTokens += Engine::sessionTokensFor(sequence->mostTokens());
  while (!waiting.empty() && running.size() < mostRunning) {
    Sequence &first = *waiting.front();
    const uint32_t tokens = Engine::sessionTokensFor(first.mostTokens());
    if (tokens > mostSessionTokens - counts.sessionTokens)
      break;
    Result<std::unique_ptr<Session>> session = engine.createSession(first.mostTokens());
    if (session.isOk()) {
      first.begin(std::move(session).value());
      counts.sessionTokens += tokens;
      running.push_back(std::move(waiting.front()));
    } else {
      first.endAs(AnswerEnd::kFailed, session.status());
      countEnd(AnswerEnd::kFailed);
    }
    waiting.pop_front();
  }
}

SchedulerNumbers Scheduler::numbers() const {
  SchedulerNumbers numbers = counts;
  numbers.running = static_cast<uint32_t>(running.size());
  numbers.waiting = static_cast<uint32_t>(waiting.size());
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
