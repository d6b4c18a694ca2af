// The runtime's C++ interface: open an artifact, account for its memory, load it, generate.
//
//   Model    an opened artifact: checked, tokenizer ready, no weights in memory
//   Engine   a loaded model: resident weights, expert cache, worker threads
//   Session  one sequence: its tokens' keys and values, and its recurrent states
//
// The caller owns all three and destroys them in the order Session, Engine, Model. One thread at a
// time uses an engine and its sessions; the engine runs further threads of its own.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/engine/StepParts.h"
#include "runtime/exec/Kernels.h"
#include "runtime/format/Artifact.h"
#include "runtime/io/ReadQueue.h"
#include "runtime/memory/MemoryBudget.h"
#include "runtime/policy/MissPolicy.h"
#include "runtime/policy/Prefetches.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace moert {

class ArtifactFile;
class DeviceBackend;

/// Owned by its opener; must outlive its engines. Immutable: any number of threads and engines may
/// use it at once.
class Model {
public:
  /// Reads and checks everything except resident weights and records.
  static Result<std::unique_ptr<Model>> open(const std::string &path);
  /// The same with other plans than the file's, which are checked like its own: what they do can be
  /// measured before an artifact with them is written.
  static Result<std::unique_ptr<Model>> openWith(const std::string &path, std::vector<Plan> plans);
  /// open(), but refuses a vision model.
  static Result<std::unique_ptr<Model>> openText(const std::string &path);
  ~Model();

  const std::string &path() const;
  const Artifact &artifact() const;
  /// As it was opened: engines read the file that was checked.
  const ArtifactFile &file() const;
  /// nullptr if the artifact has none: programs then read and print token ids.
  const Tokenizer *tokenizer() const;

private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

struct EngineOptions {
  /// Absent: all memory that the container's limit and the free memory allow.
  std::optional<BudgetSize> memory;
  uint32_t contextTokens = 0; // Tokens of the longest sequence: prompt and generated ones.
  uint32_t sessions = 1;      // That exist at the same time; each has its own KV cache.
  uint64_t sessionTokens =
      0; // That all KV caches together hold; 0: contextTokens for each session.
  uint32_t threads = 1;
  /// Where the budget has no memory for all threads, the account is for fewer, but not for fewer
  /// than this; 0: than plans are made for (kPlannedThreads). No result depends on their number.
  uint32_t fewestThreads = 0;
  IoBackend io = IoBackend::kAuto;
  std::optional<Isa> isa;               // Absent: the fastest that the processor supports.
  std::optional<uint32_t> prefillChunk; // Absent: the plan's, less if the budget is small.
  uint32_t logitsRows = 1;              // Rows of logits that the head computes at a time.
  uint64_t extraBytes = 0;              // Memory of the caller: prompt, output, profile.
  /// Index of one of the artifact's plans, from 0. Absent: the largest that fits, among the plans
  /// of `preset`, or else of the first plan's preset.
  std::optional<uint32_t> plan;
  /// The name of a preset, or of a single plan.
  std::optional<std::string> preset;
  /// Computes in the processor's place; null: the processor does.
  const DeviceBackend *device = nullptr;
  /// Budget of the device's memory; absent: what was free when it was opened.
  std::optional<BudgetSize> deviceMemory;
  /// Where the device refuses the model or the budget, the processor computes.
  bool isDeviceOptional = false;
  /// Makes the queue that the engine reads experts with; absent: createReadQueue(), whose memory is
  /// what the account has.
  ReadQueueMaker readQueue;
  /// Another engine of this process has the program itself in its account: its image, heap,
  /// reserve.
  bool sharesProcess = false;
  /// Every expert that is missing is waited for, whatever the plan's miss rule.
  bool isExact = false;
  /// If the system cannot start all threads, the engine uses those it can start. Otherwise loading
  /// is refused, since the times would be those of another machine.
  bool takesFewerThreads = false;
  /// For measuring what a miss rule loses: steps of one session compute what decoding their tokens
  /// one by one would, to the bit, and count its hits and misses, at the price of a prompt's chunk.
  /// There are no prompts, and the budget does not change. Only with a plan for which
  /// Engine::decodesInBatches() is true; with others it has no effect.
  bool decodesInBatches = false;
};

/// The memory account of a run and the plan that it is for, before anything is loaded. A refusal
/// names the smallest budget that works, or, for a context beyond the model's positions, both
/// numbers.
Result<MemoryAccount> accountMemory(const Model &model, const EngineOptions &options);

/// The smallest budget that works, whatever EngineOptions::memory is.
Result<uint64_t> smallestBudget(const Model &model, const EngineOptions &options);

/// One layer's work in the last step. Layers are the model's; an additional last entry has the rest
/// (embedding, head).
struct LayerProfile {
  uint64_t computeNs = 0;
  uint64_t waitNs = 0;    // Blocked on reads.
  uint64_t bytesRead = 0; // Prefetches included.
  uint32_t hits = 0;      // Routed experts of the batch that were in memory.
  uint32_t misses = 0;
  uint32_t lowHits = 0, lowMisses = 0; // Those of them that fewer than all slices sufficed for.
  uint32_t useful = 0;                 // Misses that had been prefetched: read early, or retained.
  uint32_t ready = 0;     // Hits, and misses that were complete when their layer pass began.
  uint32_t stalled = 0;   // Waited for, with nothing else to compute.
  uint32_t cancelled = 0; // Prefetched experts that were released unused.
  uint64_t prefetchBytes = 0;
  // Routed experts of the batch's rows that a miss rule changed: computed with fewer slices than
  // planned, left out, replaced by another expert.
  uint32_t lowered = 0, skipped = 0, substituted = 0;
  uint32_t promoted = 0; // Experts that took the place of less important ones.
};

/// Reads of a step over time. A read is under way until the engine takes its result.
struct StepReads {
  uint64_t reads = 0;      // Begun, prefetches included.
  uint64_t busyNs = 0;     // At least one was under way.
  uint64_t underWayNs = 0; // Summed over reads: relative to busyNs, the mean depth.
};

enum class LogitsWanted { kNowhere, kLast, kAll };

class Session;

/// Receives results while a step computes them. Borrowed for one step() or prefill() and called
/// from the caller's thread; an error ends the step and is returned.
class StepObserver {
public:
  virtual ~StepObserver() = default;
  /// Logits [vocabulary] after the token at `position`; valid during the call.
  virtual Status onLogits(Session &session, uint32_t position, std::span<const float> logits) = 0;
  /// Experts and weights, best first, that a MoE layer computes for the token at `position`: topK,
  /// or fewer where a miss rule leaves some out.
  virtual void onRoute(Session &, uint32_t /*moeLayer*/, uint32_t /*position*/,
                       std::span<const int32_t> /*experts*/, std::span<const float> /*weights*/) {}
  /// What the plan's miss rule decides by, where it applies: before onRoute, for the same token.
  /// Likelihoods are empty where the rule uses none. Valid during the call.
  virtual void onMissRule(uint32_t /*moeLayer*/, uint32_t /*position*/,
                          const MissInputs & /*inputs*/) {}
  /// What a predictor named for a MoE layer, likeliest first, after the router of the one `ahead`
  /// before it, while decoding the token at `position`; for a batch of several sessions, that of
  /// the first.
  virtual void onPredict(uint32_t /*moeLayer*/, uint32_t /*ahead*/, uint32_t /*position*/,
                         std::span<const PrefetchCandidate> /*candidates*/) {}
};

/// The next tokens of one session; borrows both for one call.
struct SessionTokens {
  Session *session = nullptr;
  std::span<const int32_t> tokens;
  LogitsWanted wanted = LogitsWanted::kLast;
  /// The tokens of a prompt are computed exactly, even a single one: what a plan's miss rule loses
  /// must not depend on how a prompt is divided into chunks. A rule that lowers experts of prompts
  /// applies to batches of one prompt alone. Its results depend on how the prompt is divided;
  /// prefill() divides it into prefillChunk() tokens.
  bool isPrompt = false;
};

/// Owned by its loader; the model must outlive it, and it must outlive its sessions. Used by one
/// thread at a time. Engines of one process are independent.
class Engine {
public:
  /// Loads within the account that accountMemory() returned for the same options. `progress`
  /// receives the bytes loaded so far and in total.
  static Result<std::unique_ptr<Engine>>
  load(const Model &model, const EngineOptions &options, const MemoryAccount &account,
       const std::function<void(uint64_t done, uint64_t total)> &progress = {});
  ~Engine();

  const Model &model() const;
  const KernelTable &kernels() const;
  const std::string &ioDescription() const; // "io_uring, direct, registered buffers"
  uint32_t prefillChunk() const;
  /// Whether a miss rule may change what steps compute.
  bool isLossy() const;
  /// Whether it may change steps of single tokens. If not, a lossy engine lowers experts of
  /// prompts.
  bool losesDecoding() const;
  /// EngineOptions::decodesInBatches was set and applies: there is one session, and the plan has a
  /// miss rule, quotas per layer, no prefetches and no eviction by importance, so that what a
  /// layer's cache holds depends on that layer's demands alone. No expert has separate copies, of
  /// which only one is in memory for all tokens of a batch.
  bool decodesInBatches() const;

  /// The account that holds now: that of loading, or of the last setBudget().
  const MemoryAccount &account() const;

  /// Continues with another budget, between steps: takes the plan that loading would take with it,
  /// and changes quotas, pool and prefillChunk(). Memory beyond a smaller budget is returned to the
  /// system before this returns; experts that the new quotas hold stay in memory. Sessions
  /// continue, and what they compute is the same to the bit.
  ///
  /// Too small a budget is refused with the smallest that works, and a larger one for which the
  /// container or the machine has no room: nothing has changed then. After another error the engine
  /// works within the budget before, perhaps with fewer experts in memory and no activation paths.
  Status setBudget(const BudgetSize &budget);

  /// Between steps: the experts' cache begins again as loading left it, empty or with the experts
  /// that the plan starts with. Sessions continue. After an error the engine is of no more use.
  Status restartCache();

  /// A new sequence of at most the options' contextTokens. Refused if EngineOptions::sessions
  /// sessions, for which the account has memory, already exist.
  Result<std::unique_ptr<Session>> createSession();

  /// The same for at most `tokens` tokens, rounded up to a whole block, whose memory is taken as
  /// tokens come: creating it takes no time for them. Refused too if the KV caches of all sessions
  /// would exceed EngineOptions::sessionTokens.
  Result<std::unique_ptr<Session>> createSession(uint32_t tokens);

  /// Begins the empty sequence `to` with the first `tokens` tokens of `from`, as if they had been
  /// computed for it: copies their keys and values, and the recurrent states, which exist for all
  /// tokens of `from` only. Both sessions are this engine's.
  Status copyPrefix(Session &from, Session &to, uint32_t tokens);
  /// Whether sessions have recurrent states, so that only whole sequences can be copied.
  bool hasStates() const;

  /// Tokens that a session for `tokens` tokens takes of EngineOptions::sessionTokens.
  static uint32_t sessionTokensFor(uint32_t tokens);

  /// Computes the given tokens of each session in one batch of at most prefillChunk() tokens and
  /// appends them. A session's first token begins a prompt; the plan's rules define which
  /// statistics the cache then resets or decays. The plan's miss rule applies to batches of one
  /// token per session that are not of a prompt; it is decided for all tokens of the batch before
  /// any expert is read. Allocates nothing, unless it fails.
  ///
  /// Refused before anything is computed: a batch without tokens or with too many, a session that
  /// is null, is in the batch twice, has no tokens in it, belongs to another engine or has ended,
  /// a sequence longer than its context, a token outside the vocabulary. After any error the
  /// sessions are as before the call; but those of a model with recurrent states that have tokens
  /// are refused after a step that failed, until they are reset: a state cannot go back. An
  /// observer must not call the engine or end a session.
  Status step(std::span<const SessionTokens> batch, StepObserver &observer);

  /// Computes the input of an empty session with the program "encode", its tokens in one batch:
  /// what the steps of the session attend to. A model with an encoder refuses steps before it.
  /// Refused as by step(); after an error the session is as before the call.
  Status encode(Session &session, std::span<const int32_t> tokens, StepObserver &observer);

  /// The first `tokens` tokens of an empty session attend to each other, whatever their order; at
  /// most its capacity. Refused for a model whose attention has no such prefix.
  Status setPrefix(Session &session, uint32_t tokens);

  /// step() for any number of tokens of one session, chunk by chunk. Invalid arguments are refused
  /// as a whole. Ends between chunks with kInterrupted once *stop is set. After that and after
  /// other errors the session has the tokens of the completed chunks.
  Status prefill(const SessionTokens &tokens, StepObserver &observer,
                 const std::atomic<bool> *stop = nullptr);

  /// Computes `images` images of a vision model in one batch, at most prefillChunk(); pixels are
  /// [images][channels][side][side], normalized. They are the first positions of the session, which
  /// stays empty: the observer gets the logits of image i at position i, and the routes of its rows
  /// at the positions from i * rows on. Refused as a step is, and where the model reads text.
  Status classify(Session &session, std::span<const float> pixels, uint32_t images,
                  StepObserver &observer);

  /// The last step: an entry per layer of the model and one for the rest.
  std::span<const LayerProfile> lastStep() const;
  /// The same compute time by operator, in ns; the sum equals the sum of all layers' computeNs.
  const PartNumbers &lastStepParts() const;
  const StepReads &lastStepReads() const;

private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Owned by its creator; used with the step() of the engine that created it, by that engine's
/// thread. After the engine is destroyed, only the destructor, length() and capacity() may be
/// called.
class Session {
public:
  virtual ~Session() = default;
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  virtual uint32_t length() const = 0; // Tokens so far.
  virtual uint32_t capacity() const = 0;
  virtual void reset() = 0; // Back to an empty sequence.
  /// Back to the first `tokens` tokens. Returns false, and changes nothing, if there are fewer, or
  /// if there are recurrent states, which only all tokens of a sequence have.
  [[nodiscard]] virtual bool rewind(uint32_t tokens) = 0;

protected:
  Session() = default;
};

} // namespace moert
