// Computes many sequences with one engine, a step at a time. Each step has one token of every
// sequence that generates, and the rest of its tokens are parts of prompts, in turn: a prompt
// delays the others' tokens by one chunk at most, and no prompt waits for the end of a longer one.
//
// A sequence waits until the sessions' memory, which the budget has counted, has room for its
// prompt and some tokens that it may generate; those that wait are admitted in the order in which
// they came. One that generates more gets a larger session. If there is no room, the sequence that
// came last gives its session up and waits again, before the others; its tokens are computed
// another time then, and its answer is the same. So the oldest always ends.
//
// A sequence that has ended is kept while there is room. One whose prompt begins as a kept or
// running sequence does takes over the keys, values and states of the common tokens, so that a
// system prompt is computed once; one that would share more with a prompt that is being computed
// waits for it.
//
// Recurrent states are those of all tokens of a session: nothing leads back to fewer. So a prompt
// is computed in parts that end where common tokens do: at AnswerRequest::sharedTokens, where an
// earlier sequence differs, and where a waiting one does. At the first two a copy of the session is
// kept.
//
// Whether a format allows the most likely tokens is found during the step that computes them. Where
// that takes too long, it is found after steps, in parts that take a quarter as long as a step
// together: a sequence with a hard format waits several steps for its token, and the others only
// one and a quarter. The tokens of a text that a format forces are computed in one step with the
// token before them, where the other sequences leave room; those that are not chosen are taken
// back. A sequence whose client does not take its tokens pauses.
//
// An answer does not depend on what is computed beside it: results are batch-invariant
// (docs/numbers.md), and every sequence has a sampler of its own.
#pragma once

#include "runtime/base/Clock.h"
#include "runtime/engine/Engine.h"
#include "runtime/serving/Sequence.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace moert {

/// Counts since the start, apart from those of this moment.
struct SchedulerNumbers {
  uint32_t running = 0, waiting = 0; // Sequences at this moment.
  uint64_t sessionTokens = 0;        // That running sequences have reserved at this moment.
  uint64_t budgetBytes = 0;          // The engine's, at this moment.
  uint64_t promptTokens = 0;         // Computed.
  uint64_t cachedTokens = 0;         // Prompt tokens that an earlier sequence had computed.
  uint64_t generatedTokens = 0;
  uint64_t interrupted = 0; // Sequences that gave their session up, each time.
  uint64_t steps = 0, stepNs = 0;
  uint64_t bytesRead = 0, hits = 0, misses = 0; // Routed experts.
  // Sequences by their end.
  uint64_t stopped = 0, full = 0, cancelled = 0, rejected = 0, failed = 0;
};

struct SchedulerLimits {
  uint32_t running = 1;       // Sequences that are computed at a time.
  uint32_t kept = 0;          // That have ended.
  uint64_t sessionTokens = 0; // All of them together.
  /// Room that a sequence has for tokens to come: as many as it has generated, so that a long
  /// answer moves a few times only, and these at least.
  uint32_t growth = 256;

  /// The engine has one more: a sequence that grows has two for a moment.
  uint32_t sessions() const { return running + std::max(kept, 1u); }
};

/// Used by the engine's thread. The engine must outlive it and have no sessions of others.
class Scheduler : private StepObserver {
public:
  /// Steps to find allowed tokens between two looks at the clock: a few ten microseconds, and half
  /// a millisecond where the automaton makes room meanwhile.
  static constexpr uint64_t kChoosingSteps = 4096;

  Scheduler(Engine &loadedEngine, const SchedulerLimits &schedulerLimits,
            Clock engineClock = monotonicNs);
  ~Scheduler() override;

  /// The sequence's mostTokens() must be within the engine's context.
  /// Without memory the sequence is ended.
  void add(std::unique_ptr<Sequence> sequence);

  /// Ends cancelled sequences, admits waiting ones and computes one batch. Returns false if there
  /// was nothing to compute.
  bool step();
  /// Whether a sequence waits for its client to take tokens.
  bool hasPaused() const;

  /// Ends all sequences.
  void cancelAll();
  /// Ends those that are computed, for lack of memory.
  void failRunning();

  SchedulerNumbers numbers() const;

private:
  Status onLogits(Session &session, uint32_t position, std::span<const float> logits) override;

  void dropCancelled();
  void admit();
  /// Tokens that a sequence's session is to have room for.
  uint32_t roomFor(const Sequence &sequence) const;
  /// Gives sequences whose next token has no room larger sessions.
  void growFull();
  void grow(Sequence &sequence);
  /// Frees so many tokens beside `sequence`: ends kept sequences, then interrupts later ones.
  bool freeFor(uint32_t tokens, const Sequence &sequence);
  /// The sequence gives its session up and waits again.
  void interrupt(Sequence &sequence);
  uint64_t freeTokens() const;
  /// Begins the first waiting sequence. Returns false if it has to wait.
  bool begin(Sequence &sequence);
  /// Ends the first waiting sequence.
  void failFirst(AnswerEnd how, const Status &status);
  /// An earlier sequence and how many of a prompt's first tokens it has.
  struct Prefix {
    Session *session = nullptr;
    uint32_t tokens = 0;
    uint64_t keptId = 0; // 0: a running one.
  };
  Prefix longestPrefix(const Sequence &sequence) const;
  /// Whether a running sequence, whose prompt is being computed, will soon have more of the
  /// prompt's first tokens. With recurrent states it then stops after these.
  bool waitsForPrefix(const Sequence &sequence, const Prefix &prefix);
  /// Where copies of a sequence's session are kept, with recurrent states.
  std::vector<Sequence::Stop> stopsFor(const Sequence &sequence, const Prefix &prefix) const;
  /// Keeps copies where the sequence has come to a stop.
  void takeStops(Sequence &sequence);
  void keepCopy(const std::vector<int32_t> &tokens, Session &session);
  uint32_t usableTokens(const std::vector<int32_t> &computed, const Session &session,
                        const Sequence &sequence) const;
  /// Ends kept sequences, the oldest first, until so many tokens are free; not `except` unless
  /// there is no other way.
  void makeRoom(uint32_t tokens, uint64_t &except);
  void keep(Sequence &sequence);
  uint64_t keptTokens() const;
  uint64_t runningTokens() const;
  void makeBatch();
  void finishStep(const Status &computed);
  /// Takes a sequence's results, and the sequence out if it has ended.
  void finish(Sequence &sequence);
  /// Finds allowed tokens for some time. Returns whether there were any to find.
  bool chooseTokens(uint64_t availableNs);
  void countEnd(AnswerEnd end);

  Engine &engine;
  const SchedulerLimits limits;
  std::deque<std::unique_ptr<Sequence>> waiting;
  /// Those whose prompt had the last part are at the end.
  std::vector<std::unique_ptr<Sequence>> running;
  struct Kept {
    uint64_t id; // From 1.
    std::vector<int32_t> tokens;
    std::unique_ptr<Session> session;
    bool isCopy = false; // It is the beginning of a sequence that continued.
  };
  std::deque<Kept> kept; // The one that was used last is at the end.
  uint64_t lastKeptId = 0, lastArrival = 0;
  std::vector<Sequence *> stepping; // Entry i of the batch.
  std::vector<SessionTokens> batch;
  SharedChoices choices;
  Clock clock;
  SchedulerNumbers counts;
};

} // namespace moert
