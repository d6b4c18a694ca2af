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

  const AnswerRequest &request() const { return asked; }
  Answer &answer() { return *shared; }

  /// Tokens that its session needs room for.
  uint32_t mostTokens() const {
    return static_cast<uint32_t>(asked.prompt.size()) + asked.maxTokens;
  }

  /// Call once, before the first part. The session has the prompt's first tokens if it continues an
  /// earlier sequence.
  void begin(std::unique_ptr<Session> created);
  Session *session() { return ownSession.get(); }
  std::unique_ptr<Session> releaseSession() { return std::move(ownSession); }

  bool isPrefilling() const { return !next && promptRest() > 0; }
  uint32_t promptRest() const;

  /// The next tokens, at most that many, and which logits it needs of them. Valid until the step is
  /// over.
  SessionTokens part(uint32_t most);

  /// Logits after the token at `position`, during a step. An error concerns this sequence alone and
  /// appears in finishStep().
  void takeLogits(uint32_t position, std::span<const float> logits);

  /// After a successful step: passes its results on. Returns how the sequence ended, if it did.
  std::optional<AnswerEnd> finishStep();

  /// Ends the answer where it is.
  void endAs(AnswerEnd end, const Status &status = {}) { shared->end(end, status); }

  /// The tokens that the session has, or a prefix of them.
  std::vector<int32_t> computedTokens() const;
  uint32_t generatedTokens() const { return static_cast<uint32_t>(output.size()); }

private:
  Sequence(const Model &used, AnswerRequest request, std::shared_ptr<Answer> answer,
           Sampler tokenSampler, StopText stops);

  bool isEndToken(int32_t token) const;
  /// Samples a token that the grammar allows. Sampling again among the allowed ones after one that
  /// is not has the probabilities of sampling among them at once, and most tokens need no second
  /// time.
  Result<int32_t> sample(std::span<const float> logits);
  /// Passes on the held-back text and ends the answer. Returns the end.
  AnswerEnd end(AnswerEnd end);

  const Model &model;
  AnswerRequest asked;
  // Shared with the client's thread.
  std::shared_ptr<Answer> shared;
  Sampler sampler;
  std::optional<GeneratedText> text; // With a tokenizer.
  std::optional<TokenConstraint> constraint;
  std::vector<float> maskedLogits; // With a constraint.
  std::unique_ptr<Session> ownSession;
  std::optional<int32_t> next;    // The token to compute next, after the prompt.
  std::optional<int32_t> sampled; // By the step under way.
  std::optional<TokenScore> score;
  Status error;
  std::vector<int32_t> output; // Generated tokens.
};

/// Scores `token` by a row of logits, with the `count` most probable tokens, the best first, ties
/// to the lowest index.
Result<TokenScore> scoreToken(std::span<const float> logits, int32_t token, uint32_t count);

} // namespace moert
