// The runtime's C++ interface: open an artifact, account for memory, load, generate.
//
//   Model    an opened artifact: checked, tokenizer ready, no weights in memory
//   Engine   a loaded model: resident weights, expert cache, worker threads
//   Session  one sequence: its tokens' keys and values
//
// The caller owns all three, and destroys them in the order Session, Engine, Model. One thread at a
// time uses an engine and its sessions; the engine's own threads are its business.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/engine/StepParts.h"
#include "runtime/format/Artifact.h"
#include "runtime/io/ReadQueue.h"
#include "runtime/kernels/Kernels.h"
#include "runtime/memory/MemoryBudget.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace moert {

/// Owned by whoever opened it; outlives its engines. Never changes once open: any number of threads
/// and engines may use it at once.
class Model {
public:
  /// Reads and checks everything but resident weights and records.
  static Result<std::unique_ptr<Model>> open(const std::string &path);
  ~Model();

  const std::string &path() const;
  const Artifact &artifact() const;
  /// nullptr where the artifact has none: programs then take and print ids.
  const Tokenizer *tokenizer() const;

  struct Impl;

private:
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
  friend class Engine;
  friend class LayerwisePlayer;
};

struct EngineOptions {
  /// Absent: all that the container's limit and the free memory allow.
  std::optional<BudgetSize> memory;
  uint32_t contextTokens = 0; // Tokens of the longest sequence: prompt and generated ones.
  uint32_t sessions = 1;      // That exist at the same time; each has a KV cache of its own.
  uint32_t threads = 1;
  IoBackend io = IoBackend::kAuto;
  std::optional<Isa> isa;               // Absent: the fastest that the processor has.
  std::optional<uint32_t> prefillChunk; // Absent: the plan's, less where the budget is small.
  uint32_t logitsRows = 1;              // Rows of logits that the head computes at a time.
  uint64_t extraBytes = 0;              // What the caller itself holds: prompt, output, profile.
  /// One of the artifact's plans, counted from 0. Absent: of the plans of `preset`, or else of the
  /// first plan's preset, the largest that fits.
  std::optional<uint32_t> plan;
  /// As a plan's preset is spelled; or a plan's name, for that one.
  std::optional<std::string> preset;
  /// Makes the queue that the engine reads experts with; absent: createReadQueue(), whose memory is
  /// what the account has.
  ReadQueueMaker readQueue;
  /// Another engine of this process has the program itself in its account: its image, heap,
  /// reserve.
  bool sharesProcess = false;
  /// Where the system has not so many threads the engine takes what there are; otherwise it is
  /// refused, since its times would be those of another machine.
  bool takesFewerThreads = false;
};

/// The account of a run, before anything is loaded, with the plan that it is for. A budget that
/// cannot work is refused with the smallest that would, a context beyond the model's positions with
/// both numbers.
Result<MemoryAccount> accountMemory(const Model &model, const EngineOptions &options);

/// What one layer did in the last step. Layers are the model's; what belongs to none (embedding,
/// head) is in an entry of its own at the end.
struct LayerProfile {
  uint64_t computeNs = 0;
  uint64_t waitNs = 0;    // Blocked on reads.
  uint64_t bytesRead = 0; // Guesses included.
  uint32_t hits = 0;      // Routed experts of the batch that were in memory.
  uint32_t misses = 0;
  uint32_t adopted = 0; // Misses that had been guessed: read, or kept from leaving.
  uint32_t present = 0; // Hits, and misses that had been read by then.
  uint32_t awaited = 0; // Of all, those that were waited for, with nothing else to compute.
  uint32_t refuted = 0; // Guessed experts that were let go unused.
  uint64_t guessBytes = 0;
};

enum class LogitsWanted { kNowhere, kLast, kAll };

class Session;

/// Sees what a step computes, as it does. Borrowed for one step() or prefill(), and called from the
/// thread that called that; a failure ends the step with it.
class StepObserver {
public:
  virtual ~StepObserver() = default;
  /// Logits [vocabulary] after the token at `position`; valid during the call.
  virtual Status onLogits(Session &session, uint32_t position, std::span<const float> logits) = 0;
  /// Experts and weights [topK], best first, chosen in a MoE layer for the token at `position`.
  virtual void onRoute(Session &, uint32_t /*moeLayer*/, uint32_t /*position*/,
                       std::span<const int32_t> /*experts*/, std::span<const float> /*weights*/) {}
};

/// The next tokens of one session; borrows both for the call that it is given to.
struct SessionTokens {
  Session *session = nullptr;
  std::span<const int32_t> tokens;
  LogitsWanted wanted = LogitsWanted::kLast;
};

/// Owned by whoever loaded it; borrows the model, which outlives it, and outlives its sessions. One
/// thread at a time; engines of one process do not know of each other.
class Engine {
public:
  /// Loads within the account that accountMemory() gave for the same options. `progress` hears the
  /// bytes loaded so far and in all.
  static Result<std::unique_ptr<Engine>>
  load(const Model &model, const EngineOptions &options, const MemoryAccount &account,
       const std::function<void(uint64_t done, uint64_t total)> &progress = {});
  ~Engine();

  const Model &model() const;
  const KernelTable &kernels() const;
  const std::string &ioDescription() const; // "io_uring, direct, registered buffers"
  uint32_t prefillChunk() const;

  /// A new sequence of at most the options' contextTokens. Refused while as many sessions exist as
  /// the options, and so the account, have.
  Result<std::unique_ptr<Session>> createSession();

  /// Computes the given tokens of each session, in one batch of at most prefillChunk() tokens, and
  /// appends them. A session's first token begins a prompt: the plan's rules say what the cache
  /// forgets then, or counts less. Allocates nothing, unless it fails.
  ///
  /// Refused before anything is computed: a batch without tokens or with too many, a session that
  /// is null, is in the batch twice, has no tokens in it, belongs to another engine or has ended,
  /// a sequence longer than its context, a token outside the vocabulary. After any error the
  /// sessions are as before the call. An observer must not call the engine or end a session.
  Status step(std::span<const SessionTokens> batch, StepObserver &observer);

  /// step() for any number of tokens of one session, chunk by chunk, refused as a whole; ends
  /// between chunks with kInterrupted once *stop is set. After that and other errors the session
  /// has the tokens of the chunks before.
  Status prefill(const SessionTokens &tokens, StepObserver &observer,
                 const std::atomic<bool> *stop = nullptr);

  /// Of the last step: an entry per layer of the model and one for the rest.
  std::span<const LayerProfile> lastStep() const;
  /// The same computing by its parts, in ns: together all layers' computeNs.
  const PartNumbers &lastStepParts() const;

  struct Impl;

private:
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Owned by whoever created it, within the life of the engine that did, whose step() it is for. One
/// thread at a time: the engine's. A session that is left when its engine ends can only be
/// destroyed, and asked for its length and capacity.
class Session {
public:
  ~Session();
  uint32_t length() const; // Tokens so far.
  uint32_t capacity() const;
  void reset(); // Back to an empty sequence.

  struct Impl;
  Impl &internals() { return *impl; }

private:
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
  friend class Engine;
};

} // namespace moert
