// Runs a scheduler in the engine's thread while other threads bring requests.
#pragma once

#include "runtime/serving/Scheduler.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace moert {

struct ServingLimits {
  uint32_t contextTokens = 0; // A sequence's prompt and what it may generate.
  uint32_t running = 1;       // Sequences that are computed at a time.
  uint32_t waiting = 0;       // That wait for room.
  uint32_t kept = 0;          // That have ended and whose prefixes may be used again.
  uint64_t sessionTokens = 0; // All sequences together.

  /// The engine has room for so many sessions.
  uint32_t sessions() const { return SchedulerLimits{running, kept, sessionTokens}.sessions(); }
};

enum class Refusal {
  kInvalid,  // The request cannot work.
  kTooLong,  // Longer than the context.
  kBusy,     // Too many requests wait.
  kStopping, // The program ends.
};

/// The answers to a request, one per sequence; or why it was refused. A sequence is cancelled once
/// all pointers to its answer that the client has are gone.
struct Submission {
  // Shared by whoever waits for the answer.
  std::vector<std::shared_ptr<Answer>> answers = {};
  std::optional<Refusal> refusal = {};
  std::string reason = {};
};

/// What run() calls, from its thread. Each may be empty.
struct ServingHooks {
  std::function<void()> beforeStep = {}; // Also while there is nothing to compute.
  std::function<void()> onStop = {};     // The stop was noticed.
};

class ServingLoop {
public:
  ServingLoop(Engine &loadedEngine, const ServingLimits &servingLimits);

  /// Adds the sequences of one request, all or none. From any thread.
  Submission submit(std::vector<AnswerRequest> requests);

  /// Computes until *stop is set. Then nothing more is accepted, and sequences that have not ended
  /// after `grace` are cancelled. Call once, from the engine's thread.
  void run(const std::atomic<bool> &stop, std::chrono::milliseconds grace,
           const ServingHooks &hooks = {});

  /// From any thread.
  SchedulerNumbers numbers();
  uint64_t refusals();
  const ServingLimits &limits() const { return bounds; }
  const Model &model() const { return engine.model(); }

private:
  Submission refuse(Refusal refusal, std::string reason);
  /// Moves new sequences to the scheduler; waits for some if it has nothing to do.
  void takeNew(bool isIdle);

  Engine &engine;
  const ServingLimits bounds;
  Scheduler scheduler; // Used by run()'s thread.

  std::mutex mutex; // Guards the rest.
  std::condition_variable arrived;
  std::vector<std::unique_ptr<Sequence>> inbox;
  SchedulerNumbers published;
  uint64_t refused = 0;
  bool isStopping = false;
};

} // namespace moert
