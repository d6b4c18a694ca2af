// One sequence while the scheduler computes it: the tokens that its session needs next, and the
// use of the logits after them.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/serving/Answer.h"
#include "runtime/serving/TokenSequence.h"
#include "runtime/text/answer/GeneratedText.h"
#include "runtime/text/grammar/TokenConstraint.h"
#include "runtime/text/sampling/Sampler.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// What the sequences of a scheduler choose tokens with.
struct SharedChoices {
  GrammarMatchers matchers;
  std::vector<float> scratch;   // A row of logits.
  std::vector<int32_t> allowed; // Tokens.
};

/// Owned by the scheduler and used by its thread; create() may be called by any. The model must
/// outlive it.
class Sequence {
public:
  /// Refuses options outside their ranges and names them. Without a tokenizer,
  /// answers have tokens and no text.
  static Result<std::unique_ptr<Sequence>> create(const Model &model, AnswerRequest request,
                                                  std::shared_ptr<Answer> answer);

  /// Bytes that a sequence with a grammar allocates to choose a token, beside its constraint and a
  /// row of logits: the most likely tokens, and the allowed ones among them.
  static constexpr uint64_t kChoosingBytes = 16 * 1024;

  /// A number of tokens after which a part of the prompt ends, so that another sequence can take
  /// over the states of exactly these.
  struct Stop {
    uint32_t tokens = 0;
    bool isKept = false; // A copy of the session is kept.
  };
  /// The scheduler's notes.
  struct Place {
    uint64_t arrival = 0;         // By the first admission; the lowest came first.
    std::vector<Stop> stops = {}; // With recurrent states; any order.
  };
  Place place;

  /// Without the prompt.
  const AnswerRequest &request() const { return asked; }
  Answer &answer() { return *shared; }

  /// Tokens that it has at most, and so needs room for at its end.
  uint32_t mostTokens() const { return sequence.mostTokens(); }
  /// The prompt, and what was generated.
  const std::vector<int32_t> &tokens() const { return sequence.tokens(); }

  /// Call before the first part. The session has the first tokens if they were computed before, for
  /// this or for another sequence. Call again, with another session, to continue a sequence that
  /// gave its session up: the answer is the same. The first call allocates what sampling needs: a
  /// sequence that waits has none of it. After std::bad_alloc it can only be ended. `choices` must
  /// outlive it.
  Status begin(std::unique_ptr<Session> created, SharedChoices &choices);
  /// Continues with another session that has the same tokens.
  void moveTo(std::unique_ptr<Session> larger) { ownSession = std::move(larger); }
  Session *session() { return ownSession.get(); }
  std::unique_ptr<Session> releaseSession() { return std::move(ownSession); }

  /// Whether its next part is of tokens that it has, and not the last generated one.
  bool isPrefilling() const { return sequence.isPrefilling(*ownSession); }

  /// The next tokens, at most that many, and which logits it needs of them. Valid until the step is
  /// over. Not while it is choosing.
  ///
  /// While it generates, tokens beyond the first are ahead of what was sampled: they are those of
  /// the text that its grammar forces. After the step the session has them as far as they are the
  /// ones that were sampled meanwhile; it must be able to go back to fewer tokens.
  SessionTokens part(uint32_t most);

  /// Whether it is not known yet which of the tokens that matter are allowed.
  bool isChoosing() const { return !heldLogits.empty(); }
  /// Goes on to find out, for about so many steps, and samples one once they are known; see
  /// finishStep() then. Each call comes nearer to it, however few steps it has: by a token that is
  /// matched.
  void choose(uint64_t steps);
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
  uint32_t generatedTokens() const { return sequence.generatedTokens(); }

private:
  Sequence(const Model &used, AnswerRequest request, std::shared_ptr<Answer> answer,
           StopText stops);

  /// Samples among the tokens that the grammar allows: top-k, top-p and min-p cut these alone. No
  /// value: about so many steps did not suffice. Asks for the tokens that matter first; where these
  /// leave it open, or few bytes may come next, for all, also after the session was given up: the
  /// draws are over.
  Result<std::optional<int32_t>> sampleAllowed(uint64_t steps);
  void endChoice();
  /// Whether a token is to be sampled from the logits after the one at `position`.
  bool isNext(uint32_t position) const;
  /// How many of the tokens ahead are those that were sampled.
  size_t confirmedAhead() const;
  /// Passes a sampled token on. Returns how the sequence ended, if it did.
  std::optional<AnswerEnd> pass(int32_t token, std::optional<TokenScore> score);
  Status takeToken(int32_t token, std::span<const float> logits);
  /// An error of this sequence; memory that is missing is one too.
  void fail(Status status, AnswerEnd how, uint32_t position);
  /// Passes on the held-back text and ends the answer. Returns the end.
  AnswerEnd end(AnswerEnd end);

  const Model &model;
  AnswerRequest asked; // Without the prompt.
  TokenSequence sequence;
  // Shared with the client's thread.
  std::shared_ptr<Answer> shared;
  std::optional<Sampler> sampler;    // Once it has begun.
  std::optional<GeneratedText> text; // With a tokenizer.
  std::optional<TokenConstraint> constraint;
  std::vector<float> heldLogits; // While it is choosing.
  uint32_t heldPosition = 0;
  /// The likeliest tokens leave it open, or few bytes may come next.
  bool needsAll = false;
  SharedChoices *choices = nullptr; // Once it has begun.
  std::unique_ptr<Session> ownSession;
  bool hasBegun = false;
  struct Sampled {
    int32_t token;
    std::optional<TokenScore> score;
  };
  std::vector<Sampled> sampled; // By the step under way: one, and those that it had ahead.
  std::vector<int32_t> ahead;   // The last token, and those ahead of it; empty if there are none.
  Status error;
  AnswerEnd errorEnd = AnswerEnd::kFailed; // How the error ends the sequence.
};

/// The error of an allocation that failed.
Status outOfMemory();

/// Scores `token` by a row of logits, with the `count` most probable tokens, the best first, ties
/// to the lowest index.
Result<TokenScore> scoreToken(std::span<const float> logits, int32_t token, uint32_t count);

} // namespace moert
