// One sequence from prompt to end, measured: a loop that passes each token to a callback, and
// generate(), which runs it into a stream of text.
#pragma once

#include "moert/Engine.h"
#include "runtime/base/Clock.h"
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
  std::span<const int32_t> endTokens;  // Each ends the sequence and is not handed out.
  std::span<const int32_t> given = {}; // maxTokens that are taken for the sampled ones; or none.
  bool fillsContext = false;           // maxTokens is all that the context has room for.
};

/// Why a sequence ended.
enum class GenerationEnd {
  kLength,      // maxTokens were handed out.
  kContext,     // The same, and the context is full.
  kEndToken,    // The model ended its text.
  kStop,        // At a stop text, or the callback wanted no more.
  kInterrupted, // The stop flag was set.
};

/// As in a run's JSON and profile: "length", "context", "eos", "stop", "interrupted".
const char *nameOf(GenerationEnd end);

struct GenerationNumbers {
  uint64_t promptTokens = 0;    // Computed so far.
  uint64_t generatedTokens = 0; // Handed out.
  uint64_t decodeSteps = 0;     // The first generated token comes with the prompt's last chunk.
  uint64_t promptNs = 0, decodeNs = 0;
  LayerTotals prefill, decode;

  double promptTokensPerSecond() const; // 0 where nothing was measured.
  double decodeTokensPerSecond() const;
};

/// Borrows everything; used once, by the thread that uses the engine. The loop allocates nothing
/// but what `take` does.
class Generation {
public:
  /// False: wants no more.
  using TakeToken = std::function<Result<bool>(int32_t token)>;
  /// Hears of every step.
  using TakeStep = std::function<void(const RunStep &step, std::span<const LayerProfile> layers)>;

  /// stopFlag: may be set by another thread or a signal's handler; it is read between steps.
  Generation(Engine &loadedEngine, Session &emptySession, Sampler &tokenSampler, TakeStep stepTaker,
             const std::atomic<bool> &stopFlag, Clock clock = monotonicNs);

  Result<GenerationEnd> run(const GenerationRequest &request, const TakeToken &take);

  /// Right after an error too.
  const GenerationNumbers &numbers() const { return measured; }

private:
  class Choice;

  Result<bool> prefill(const GenerationRequest &request, Choice &choice);
  Status step(RunPhase phase, std::span<const int32_t> tokens, LogitsWanted wanted, Choice &choice);
  bool isStopped() const { return stop.load(std::memory_order_relaxed); }

  Engine &engine;
  Session &session;
  Sampler &sampler;
  TakeStep takeStep;
  const std::atomic<bool> &stop;
  Clock now;
  GenerationNumbers measured;
};

/// Generates into a stream and finishes it. An error of the stream's callback is returned as it is,
/// without finish().
Result<GenerationEnd> generate(Generation &generation, const GenerationRequest &request,
                               TextStream &text);

} // namespace moert
