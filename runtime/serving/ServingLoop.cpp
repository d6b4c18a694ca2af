#include "runtime/serving/ServingLoop.h"

#include <new>

namespace moert {

/// How long the idle loop waits before it looks at the stop flag, which a signal handler sets.
constexpr std::chrono::milliseconds kIdleWait{100};
/// The same where a sequence waits for its client to take tokens.
constexpr std::chrono::milliseconds kPausedWait{5};

ServingLoop::ServingLoop(Engine &loadedEngine, const ServingLimits &servingLimits)
    : engine(loadedEngine), bounds(servingLimits),
      scheduler(loadedEngine,
                {servingLimits.running, servingLimits.kept, servingLimits.sessionTokens}),
      published(scheduler.numbers()) {}

Submission ServingLoop::refuse(Refusal refusal, std::string reason) {
  const std::lock_guard<std::mutex> lock(mutex);
  ++refused;
  return {{}, refusal, std::move(reason)};
}

Submission ServingLoop::submit(std::vector<AnswerRequest> requests) {
  Submission submission;
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (AnswerRequest &request : requests) {
    const uint64_t tokens = uint64_t(request.prompt.size()) + request.maxTokens;
    if (tokens > bounds.contextTokens)
      return refuse(Refusal::kTooLong,
                    strCat("the prompt has ", request.prompt.size(), " tokens and ",
                           request.maxTokens, " are to be generated, expected at most ",
                           bounds.contextTokens, " together"));
    auto answer = std::make_shared<Answer>(); // Shared with the client's thread.
    auto sequence = Sequence::create(engine.model(), std::move(request), answer);
    if (!sequence.isOk())
      return refuse(Refusal::kInvalid, sequence.status().message());
    sequences.push_back(std::move(sequence).value());
    Answer *const shared = answer.get();
    submission.answers.emplace_back(
        shared, [kept = std::move(answer)](Answer *released) { released->cancel(); });
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    const uint64_t before = published.running + published.waiting + inbox.size();
    const uint64_t most = uint64_t(bounds.running) + bounds.waiting;
    if (isStopping || before + sequences.size() > most) {
      ++refused;
      if (isStopping)
        return {{}, Refusal::kStopping, "the server is stopping"};
      return {{},
              Refusal::kBusy,
              strCat(before, " sequences are running or waiting and this request has ",
                     sequences.size(), ", expected at most ", most, " together")};
    }
    inbox.reserve(inbox.size() + sequences.size()); // All or none.
    std::move(sequences.begin(), sequences.end(), std::back_inserter(inbox));
  }
  arrived.notify_one();
  return submission;
}

void ServingLoop::takeNew(bool isIdle) {
  std::unique_lock<std::mutex> lock(mutex);
  if (isIdle)
    arrived.wait_for(lock, scheduler.hasPaused() ? kPausedWait : kIdleWait,
                     [&] { return !inbox.empty(); });
  for (auto &sequence : inbox)
    if (sequence) // An error may have left some that were added.
      scheduler.add(std::move(sequence));
  inbox.clear();
  published = scheduler.numbers();
}

void ServingLoop::run(const std::atomic<bool> &stop, std::chrono::milliseconds grace,
                      const ServingHooks &hooks) {
  using SteadyClock = std::chrono::steady_clock;
  std::optional<SteadyClock::time_point> end;
  bool isIdle = false;
  while (!end || (!isIdle && SteadyClock::now() < *end)) {
    if (!end && stop.load(std::memory_order_relaxed)) {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        isStopping = true;
      }
      end = SteadyClock::now() + grace;
      if (hooks.onStop)
        hooks.onStop();
    }
    if (hooks.beforeStep)
      hooks.beforeStep();
    try {
      takeNew(isIdle && !end);
      isIdle = !scheduler.step();
    } catch (const std::bad_alloc &) {
      scheduler.failRunning(); // Others may need less.
    }
  }
  takeNew(false);
  scheduler.cancelAll();
}

SchedulerNumbers ServingLoop::numbers() {
  const std::lock_guard<std::mutex> lock(mutex);
  return published;
}

uint64_t ServingLoop::refusals() {
  const std::lock_guard<std::mutex> lock(mutex);
  return refused;
}

} // namespace moert
