// Generates one sequence and measures it: a loop that passes each token to a callback, and
// generate(), which passes them to a text stream.
#pragma once

#include "runtime/base/Clock.h"
#include "runtime/serving/RunProfile.h"
#include "runtime/serving/TextStream.h"
#include "runtime/serving/TokenSequence.h"
#include "runtime/text/sampling/Sampler.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace moert {

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

  Result<GenerationEnd> run(GenerationRequest request, const TokenSequence::TakeToken &take);

  /// Valid after an error too.
  const GenerationNumbers &numbers() const { return measured; }
  /// The tokens of run(), also after an error.
  const TokenSequence &tokens() const { return *sequence; }

private:
  class Choice;

  Status step(Choice &choice);
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
  std::optional<TokenSequence> sequence; // Once it runs.
  GenerationNumbers measured;
};

/// Generates into a stream and finishes it. An error of the stream's callback is returned
/// unchanged, without finish().
Result<GenerationEnd> generate(Generation &generation, GenerationRequest request, TextStream &text);

} // namespace moert
