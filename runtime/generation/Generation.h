// Generates one sequence and measures it: a loop that passes each token to a callback, and
// generate(), which passes them to a text stream.
#pragma once

#include "runtime/base/Clock.h"
#include "runtime/engine/Engine.h"
#include "runtime/generation/NgramStop.h"
#include "runtime/generation/RunProfile.h"
#include "runtime/generation/Sampler.h"
#include "runtime/generation/TextStream.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

namespace moert {

struct GenerationRequest {
  std::span<const int32_t> prompt; // At least one token.
  uint32_t maxTokens = 0;
  std::span<const int32_t> endTokens;   // Each ends the sequence and is not passed on.
  std::span<const int32_t> given = {};  // maxTokens tokens that replace the sampled ones; or empty.
  bool fillsContext = false;            // maxTokens is the context's remaining room.
  std::span<const int32_t> before = {}; // The tokens that the session has, which penalties count.
  NgramStopOptions ngramStop = {};
};

/// Why a sequence ended.
enum class GenerationEnd {
  kLength,      // maxTokens were passed on.
  kContext,     // The same, and the context is full.
  kEndToken,    // The model produced an end token.
  kStop,        // A stop text, or the callback returned false.
  kRepetition,  // An n-gram was repeated too often.
  kInterrupted, // The stop flag was set.
};

/// The values in a run's JSON and profile: "length", "context", "eos", "stop", "repetition",
/// "interrupted".
const char *nameOf(GenerationEnd end);

struct GenerationNumbers {
  uint64_t promptTokens = 0;    // Computed so far.
  uint64_t generatedTokens = 0; // Passed on.
  uint64_t decodeSteps = 0;     // The prompt's last chunk yields the first generated token.
  uint64_t promptNs = 0, decodeNs = 0;
  LayerTotals prefill, decode;

  double promptTokensPerSecond() const; // 0 without a measurement.
  double decodeTokensPerSecond() const;
};

/// Borrows everything; used once, by the engine's thread. The loop allocates nothing except in
/// `take`.
class Generation {
public:
  /// Returns false to end the sequence.
  using TakeToken = std::function<Result<bool>(int32_t token)>;
  /// Called after every step.
  using TakeStep = std::function<void(const RunStep &step, std::span<const LayerProfile> layers)>;

  /// Called before every step, and part of its time; an error ends the sequence. May change the
  /// engine's budget.
  using PrepareStep = std::function<Status()>;

  /// stopFlag: may be set by another thread or a signal handler; read between steps.
  Generation(Engine &loadedEngine, Session &emptySession, Sampler &tokenSampler, TakeStep stepTaker,
             const std::atomic<bool> &stopFlag, Clock clock = monotonicNs,
             PrepareStep preparation = {});

  /// Records what routers and predictors choose; the record must outlive run().
  void recordRoutes(RouteRecord &record) { routes = &record; }

  Result<GenerationEnd> run(const GenerationRequest &request, const TakeToken &take);

  /// Valid after an error too.
  const GenerationNumbers &numbers() const { return measured; }

private:
  class Choice;

  Result<bool> prefill(const GenerationRequest &request, Choice &choice);
  Result<uint64_t> beginStep();
  Status step(RunPhase phase, uint64_t begin, std::span<const int32_t> tokens, LogitsWanted wanted,
              Choice &choice);
  bool isStopped() const { return stop.load(std::memory_order_relaxed); }

  Engine &engine;
  Session &session;
  Sampler &sampler;
  TakeStep takeStep;
  const std::atomic<bool> &stop;
  Clock now;
  PrepareStep prepareStep;
  uint64_t firstBeginNs = 0; // When the first step began; 0 before it.
  RouteRecord *routes = nullptr;
  GenerationNumbers measured;
};

/// Generates into a stream and finishes it. An error of the stream's callback is returned
/// unchanged, without finish().
Result<GenerationEnd> generate(Generation &generation, const GenerationRequest &request,
                               TextStream &text);

} // namespace moert
