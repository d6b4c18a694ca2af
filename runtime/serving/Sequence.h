// One sequence while the scheduler computes it: the tokens that its session needs next, and the
// use of the logits after them.
#pragma once

#include "moert/Engine.h"
#include "runtime/generation/GeneratedText.h"
#include "runtime/generation/Sampler.h"
#include "runtime/grammar/TokenConstraint.h"
#include "runtime/serving/Answer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// Owned by the scheduler and used by its thread; create() may be called by any. The model must
/// outlive it.
class Sequence {
public:
  /// Refuses options outside their ranges and names them. Without a tokenizer,
  /// answers have tokens and no text.
  static Result<std::unique_ptr<Sequence>> create(const Model &model, AnswerRequest request,
                                                  std::shared_ptr<Answer> answer);

  /// A number of tokens after which a part of the prompt ends, so that another sequence can take
  /// over the states of exactly these.
  struct Stop {
    uint32_t tokens = 0;
    bool isKept = false; // A copy of the session is kept.
  };
  /// The scheduler's notes.
  struct Place {
    uint64_t arrival = 0;         // By the first admission; the lowest came first.
    uint32_t reserved = 0;        // Tokens of the sessions' memory, while it has a session.
    std::vector<Stop> stops = {}; // With recurrent states; any order.
  };
  Place place;

  const AnswerRequest &request() const { return asked; }
  Answer &answer() { return *shared; }

  /// Tokens that it has at most, and so needs room for at its end.
  uint32_t mostTokens() const {
    return static_cast<uint32_t>(asked.prompt.size()) + asked.maxTokens;
  }
  /// The prompt, and what was generated.
  const std::vector<int32_t> &tokens() const { return all; }

  /// Call before the first part. The session has the first tokens if they were computed before, for
  /// this or for another sequence. Call again, with another session, to continue a sequence that
  /// gave its session up: the answer is the same. The first call allocates what sampling needs: a
  /// sequence that waits has none of it. After std::bad_alloc it can only be ended.
  Status begin(std::unique_ptr<Session> created);
  /// Continues with another session that has the same tokens.
  void moveTo(std::unique_ptr<Session> larger) { ownSession = std::move(larger); }
  Session *session() { return ownSession.get(); }
  std::unique_ptr<Session> releaseSession() { return std::move(ownSession); }

  /// Whether its next part is of tokens that it has, and not the last generated one.
  bool isPrefilling() const { return rest() > 1 || generatedTokens() == 0; }

  /// The next tokens, at most that many, and which logits it needs of them. Valid until the step is
  /// over. Not while it is choosing.
  SessionTokens part(uint32_t most);

  /// Whether the allowed tokens have to be found before the next one is sampled.
  bool isChoosing() const { return !heldLogits.empty(); }
  /// Goes on to find them, for about so many steps, and samples one once they are known; see
  /// finishStep() then. scratch: for a row of logits, the same for all sequences.
  void choose(uint64_t steps, std::vector<float> &scratch);
  /// Whether what sampling needs is allocated.
  bool hasSampler() const { return sampler.has_value(); }
  /// Whether the client has not taken what was generated: nothing more is computed until it does.
  bool isPaused() const { return shared->isFull(); }

  /// Logits after the token at `position`, during a step. An error concerns this sequence alone and
  /// appears in finishStep().
  void takeLogits(uint32_t position, std::span<const float> logits);

  /// After a successful step: passes its results on. Returns how the sequence ended, if it did.
  std::optional<AnswerEnd> finishStep();

  /// Ends the answer where it is.
  void endAs(AnswerEnd end, const Status &status = {}) { shared->end(end, status); }

  /// The tokens that the session has, or a prefix of them.
  std::vector<int32_t> computedTokens() const;
  uint32_t generatedTokens() const {
    return static_cast<uint32_t>(all.size() - asked.prompt.size());
  }

private:
  Sequence(const Model &used, AnswerRequest request, std::shared_ptr<Answer> answer,
           StopText stops);

  /// Tokens that its session lacks.
  uint32_t rest() const { return static_cast<uint32_t>(all.size()) - ownSession->length(); }
  bool isEndToken(int32_t token) const;
  /// Samples among the tokens that the grammar allows: top-k, top-p and min-p cut these alone.
  /// Without cuts one among all tokens is tried first, and among the allowed ones only if it is not
  /// allowed, which few are: the probabilities are the same. No value: the logits are held until
  /// the allowed tokens are known. One that was drawn before the session was given up is not drawn
  /// again: the sampler would be a draw further than that of a sequence that was not interrupted.
  Result<std::optional<int32_t>> sample(std::span<const float> logits);
  Status takeToken(int32_t token, std::span<const float> logits);
  /// An error of this sequence; memory that is missing is one too.
  void fail(Status status, AnswerEnd how, uint32_t position);
  /// Passes on the held-back text and ends the answer. Returns the end.
  AnswerEnd end(AnswerEnd end);

  const Model &model;
  AnswerRequest asked;
  // Shared with the client's thread.
  std::shared_ptr<Answer> shared;
  std::optional<Sampler> sampler;    // Once it has begun.
  std::optional<GeneratedText> text; // With a tokenizer.
  std::optional<TokenConstraint> constraint;
  std::vector<float> heldLogits; // While it is choosing.
  uint32_t heldPosition = 0;
  bool wasChoosing = false; // When it gave its session up: the held logits are computed again.
  std::unique_ptr<Session> ownSession;
  bool hasBegun = false;
  std::optional<int32_t> sampled; // By the step under way.
  std::optional<TokenScore> score;
  Status error;
  AnswerEnd errorEnd = AnswerEnd::kFailed; // How the error ends the sequence.
  std::vector<int32_t> all;                // The prompt's and generated tokens.
};

/// The error of an allocation that failed.
Status outOfMemory();

/// Scores `token` by a row of logits, with the `count` most probable tokens, the best first, ties
/// to the lowest index.
Result<TokenScore> scoreToken(std::span<const float> logits, int32_t token, uint32_t count);

} // namespace moert
