#include "runtime/serving/Sequence.h"

#include "runtime/evaluation/RowScore.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace moert {

Result<TokenScore> scoreToken(std::span<const float> logits, int32_t token, uint32_t count) {
  MOERT_ASSIGN_OR_RETURN(RowScore score, scoreRow(logits, {}, token));
  TokenScore result = {token, -score.lossNats, {}};
  auto isBefore = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::vector<int32_t> best; // Sorted. A few of many: insertion beats a heap.
  for (size_t i = 0; i < logits.size() && count > 0; ++i) {
    const auto candidate = static_cast<int32_t>(i);
    if (best.size() == count && !isBefore(candidate, best.back()))
      continue;
    if (best.size() == count)
      best.pop_back();
    best.insert(std::upper_bound(best.begin(), best.end(), candidate, isBefore), candidate);
  }
  const double chosen = double(logits[static_cast<size_t>(token)]);
  for (int32_t other : best)
    result.top.emplace_back(other, result.logProbability +
                                       (double(logits[static_cast<size_t>(other)]) - chosen));
  return result;
}

Status outOfMemory() {
  return Status(StatusCode::kFailed, "the system has no memory left");
}

Sequence::Sequence(const Model &used, AnswerRequest request, std::shared_ptr<Answer> answer,
                   StopText stops)
    : model(used), asked(std::move(request)), shared(std::move(answer)), all(asked.prompt) {
  if (used.tokenizer())
    text.emplace(*used.tokenizer(), std::move(stops), asked.shownTokens);
}

Result<std::unique_ptr<Sequence>> Sequence::create(const Model &model, AnswerRequest request,
                                                   std::shared_ptr<Answer> answer) {
  const ModelInfo &info = model.artifact().model;
  if (!request.stopTexts.empty() && !model.tokenizer())
    return invalidInput("stop texts for a model without a tokenizer, expected none");
  if (request.prompt.empty())
    return invalidInput("the prompt has no tokens, expected at least one");
  for (int32_t token : request.prompt)
    if (token < 0 || static_cast<uint32_t>(token) >= info.vocabularySize)
      return invalidInput("token id ", token, ", expected 0 to ", info.vocabularySize - 1);
  MOERT_RETURN_IF_ERROR(check(request.sampling, info.vocabularySize));
  MOERT_ASSIGN_OR_RETURN(StopText stops, StopText::create(request.stopTexts));
  return std::unique_ptr<Sequence>(
      new Sequence(model, std::move(request), std::move(answer), std::move(stops)));
}

Status Sequence::begin(std::unique_ptr<Session> created) {
  assert(created->length() < all.size());
  ownSession = std::move(created);
  wasChoosing = wasChoosing || isChoosing();
  heldLogits.clear(); // They are computed again.
  if (std::exchange(hasBegun, true))
    return {};
  MOERT_ASSIGN_OR_RETURN(sampler,
                         Sampler::create(asked.sampling, model.artifact().model.vocabularySize));
  if (asked.grammar)
    constraint.emplace(asked.grammar, *asked.tokenTexts, model.artifact().model.eosTokens);
  shared->setCachedTokens(ownSession->length());
  sampler->addPrompt(asked.prompt);
  return {};
}

SessionTokens Sequence::part(uint32_t most) {
  const uint32_t count = std::min(most, rest());
  LogitsWanted wanted = LogitsWanted::kNowhere;
  if (asked.scoresPrompt && generatedTokens() == 0)
    wanted = LogitsWanted::kAll;
  else if (count == rest() && asked.maxTokens > 0)
    wanted = LogitsWanted::kLast;
  return {ownSession.get(), std::span(all).subspan(ownSession->length(), count), wanted,
          isPrefilling()};
}

Result<std::optional<int32_t>> Sequence::sample(std::span<const float> logits) {
  const SamplingOptions &options = asked.sampling;
  const bool cuts =
      options.temperature > 0 && (options.topK != 0 || options.topP < 1 || options.minP > 0);
  if (constraint && (std::exchange(wasChoosing, false) || cuts))
    return std::optional<int32_t>();
  MOERT_ASSIGN_OR_RETURN(int32_t token, sampler->sample(logits));
  return !constraint || constraint->allows(token) ? std::optional(token) : std::nullopt;
}

Status Sequence::takeToken(int32_t token, std::span<const float> logits) {
  sampled = token;
  if (asked.topScores) {
    MOERT_ASSIGN_OR_RETURN(score, scoreToken(logits, token, *asked.topScores));
  }
  return {};
}

void Sequence::fail(Status status, AnswerEnd how, uint32_t position) {
  if (!error.isOk())
    return;
  error = std::move(status).withContext(strCat("after token ", position));
  errorEnd = how;
}

void Sequence::takeLogits(uint32_t position, std::span<const float> logits) {
  const bool isInPrompt = position + 1 < asked.prompt.size();
  auto take = [&]() -> Status {
    if (!isInPrompt && asked.maxTokens == 0)
      return {};
    if (isInPrompt) {
      MOERT_ASSIGN_OR_RETURN(TokenScore scored, scoreToken(logits, asked.prompt[position + 1],
                                                           asked.topScores.value_or(0)));
      shared->addPromptScore(std::move(scored));
      return {};
    }
    MOERT_ASSIGN_OR_RETURN(std::optional<int32_t> token, sample(logits));
    if (token)
      return takeToken(*token, logits);
    heldLogits.assign(logits.begin(), logits.end());
    heldPosition = position;
    return {};
  };
  try {
    if (Status taken = take(); !taken.isOk())
      fail(std::move(taken), AnswerEnd::kFailed, position);
  } catch (const std::bad_alloc &) {
    fail(outOfMemory(), AnswerEnd::kNoMemory, position);
  }
}

void Sequence::choose(uint64_t steps, std::vector<float> &scratch) {
  auto end = [&](Status status, AnswerEnd how) {
    if (!status.isOk())
      fail(std::move(status), how, heldPosition);
    heldLogits.clear();
  };
  try {
    Result<bool> isKnown = constraint->findAllowed(steps);
    if (isKnown.isOk() && !*isKnown)
      return;
    scratch.assign(heldLogits.begin(), heldLogits.end());
    if (Status masked = isKnown.isOk() ? constraint->mask(scratch) : isKnown.status();
        !masked.isOk())
      return end(std::move(masked), AnswerEnd::kRejected);
    Result<int32_t> token = sampler->sample(scratch);
    end(token.isOk() ? takeToken(*token, heldLogits) : token.status(), AnswerEnd::kFailed);
  } catch (const std::bad_alloc &) {
    end(outOfMemory(), AnswerEnd::kNoMemory);
  }
}

bool Sequence::isEndToken(int32_t token) const {
  const auto &ends = model.artifact().model.eosTokens;
  return !asked.ignoresEndTokens && std::find(ends.begin(), ends.end(), token) != ends.end();
}

AnswerEnd Sequence::end(AnswerEnd ended) {
  AnswerPiece rest;
  // Text that was held back can complete a stop text.
  if (text && text->finish(rest.text))
    ended = AnswerEnd::kStop;
  if (!rest.text.empty())
    shared->addPiece(std::move(rest));
  shared->end(ended);
  return ended;
}

std::optional<AnswerEnd> Sequence::finishStep() {
  if (!error.isOk()) {
    endAs(errorEnd, error);
    return errorEnd;
  }
  if (isChoosing())
    return std::nullopt;
  if (!sampled)
    return rest() == 0 ? std::optional(end(AnswerEnd::kLength)) : std::nullopt;
  const int32_t token = *sampled;
  sampled.reset();
  if (isEndToken(token))
    return end(AnswerEnd::kStop);
  all.push_back(token);
  sampler->addGenerated(token);
  if (constraint)
    constraint->take(token);
  AnswerPiece piece = {token, {}, std::move(score)};
  score.reset();
  const bool isStopped = text && text->take(token, piece.text);
  shared->addPiece(std::move(piece));
  if (isStopped || generatedTokens() == asked.maxTokens)
    return end(isStopped ? AnswerEnd::kStop : AnswerEnd::kLength);
  if (constraint && constraint->hasEnded())
    return end(AnswerEnd::kStop);
  return std::nullopt;
}

std::vector<int32_t> Sequence::computedTokens() const {
  const size_t computed = std::min<size_t>(all.size(), ownSession ? ownSession->length() : 0);
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(computed)};
}

} // namespace moert
