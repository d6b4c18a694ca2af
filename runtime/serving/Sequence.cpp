#include "runtime/serving/Sequence.h"

#include "runtime/evaluation/RowScore.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace moert {

/// Steps to look for a token during a step of the engine, beside one pass over the logits: a few
/// ten microseconds, and enough for most tokens.
constexpr uint64_t kFirstSteps = 2048;

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
    : model(used), asked(std::move(request)),
      sequence({.prompt = std::move(asked.prompt),
                .maxTokens = asked.maxTokens,
                .endTokens = asked.ignoresEndTokens ? std::span<const int32_t>()
                                                    : used.artifact().model.eosTokens}),
      shared(std::move(answer)) {
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

Status Sequence::begin(std::unique_ptr<Session> created, SharedChoices &shares) {
  assert(created->length() < tokens().size());
  ownSession = std::move(created);
  heldLogits.clear(); // They are computed again.
  if (std::exchange(hasBegun, true))
    return {};
  MOERT_ASSIGN_OR_RETURN(sampler,
                         Sampler::create(asked.sampling, model.artifact().model.vocabularySize));
  choices = &shares;
  if (asked.grammar)
    constraint.emplace(shares.matchers.matcherOf(asked.grammar, *asked.tokenTexts),
                       model.artifact().model.eosTokens);
  shared->setCachedTokens(ownSession->length());
  sampler->addPrompt(tokens());
  return {};
}

SessionTokens Sequence::part(uint32_t most) {
  ahead.clear();
  if (constraint && !isPrefilling()) {
    const uint32_t room = std::min(
        {most, ownSession->capacity() - ownSession->length(), asked.maxTokens - generatedTokens()});
    ahead = constraint->forcedTokens(room - 1);
    if (!ahead.empty()) {
      ahead.insert(ahead.begin(), tokens().back());
      return {ownSession.get(), ahead, LogitsWanted::kAll, false};
    }
  }
  SessionTokens next = sequence.part(*ownSession, most);
  if (asked.scoresPrompt && generatedTokens() == 0)
    next.wanted = LogitsWanted::kAll;
  return next;
}

Result<std::optional<int32_t>> Sequence::sampleAllowed(uint64_t steps) {
  const uint64_t end = constraint->steps() + steps;
  std::vector<float> &scratch = choices->scratch;
  if (!needsAll) {
    bool isPending = false;
    auto isAllowed = [&](int32_t token) -> std::optional<bool> {
      isPending = constraint->steps() >= end;
      return isPending ? std::nullopt : std::optional(constraint->allows(token));
    };
    MOERT_ASSIGN_OR_RETURN(std::optional<int32_t> token,
                           sampler->sampleAllowed(heldLogits, scratch, isAllowed));
    if (token || isPending)
      return token;
    needsAll = true;
  }
  if (!constraint->findAllowed(steps))
    return std::optional<int32_t>();
  if (Status listed = constraint->listAllowed(choices->allowed); !listed.isOk()) {
    errorEnd = AnswerEnd::kRejected;
    return listed;
  }
  MOERT_ASSIGN_OR_RETURN(int32_t token, sampler->sampleFrom(choices->allowed, heldLogits, scratch));
  return std::optional(token);
}

Status Sequence::takeToken(int32_t token, std::span<const float> logits) {
  std::optional<TokenScore> score;
  if (asked.topScores) {
    MOERT_ASSIGN_OR_RETURN(score, scoreToken(logits, token, *asked.topScores));
  }
  sampled.push_back({token, std::move(score)});
  if (sequence.isEndToken(token))
    return {};
  sampler->addGenerated(token);
  if (constraint)
    constraint->take(token);
  return {};
}

void Sequence::fail(Status status, AnswerEnd how, uint32_t position) {
  if (!error.isOk())
    return;
  error = std::move(status).withContext(strCat("after token ", position));
  errorEnd = how;
}

bool Sequence::isNext(uint32_t position) const {
  const size_t row = position + 1 - tokens().size();
  return asked.maxTokens > 0 && !isChoosing() && row == confirmedAhead() &&
         (row == 0 || !constraint->hasEnded());
}

void Sequence::takeLogits(uint32_t position, std::span<const float> logits) {
  const bool isInPrompt = position + 1 < sequence.promptTokens();
  auto take = [&]() -> Status {
    if (!isInPrompt && !isNext(position))
      return {};
    if (isInPrompt) {
      MOERT_ASSIGN_OR_RETURN(TokenScore scored, scoreToken(logits, tokens()[position + 1],
                                                           asked.topScores.value_or(0)));
      shared->addPromptScore(std::move(scored));
      return {};
    }
    if (!constraint) {
      MOERT_ASSIGN_OR_RETURN(int32_t token, sampler->sample(logits));
      return takeToken(token, logits);
    }
    heldLogits.assign(logits.begin(), logits.end());
    heldPosition = position;
    needsAll = needsAll || constraint->isNarrow();
    choose(kFirstSteps);
    return {};
  };
  try {
    if (Status taken = take(); !taken.isOk())
      fail(std::move(taken), AnswerEnd::kFailed, position);
  } catch (const std::bad_alloc &) {
    fail(outOfMemory(), AnswerEnd::kNoMemory, position);
  }
}

void Sequence::choose(uint64_t steps) {
  auto take = [&]() -> Status {
    MOERT_ASSIGN_OR_RETURN(std::optional<int32_t> token, sampleAllowed(steps));
    if (!token)
      return {};
    const Status taken = takeToken(*token, heldLogits);
    endChoice();
    return taken;
  };
  try {
    Status taken = take();
    if (taken.isOk())
      return;
    fail(std::move(taken), errorEnd, heldPosition);
  } catch (const std::bad_alloc &) {
    fail(outOfMemory(), AnswerEnd::kNoMemory, heldPosition);
  }
  endChoice();
}

void Sequence::endChoice() {
  heldLogits.clear();
  needsAll = false;
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

size_t Sequence::confirmedAhead() const {
  size_t right = 0;
  while (right < sampled.size() && right + 1 < ahead.size() &&
         sampled[right].token == ahead[right + 1])
    ++right;
  return right;
}

std::optional<AnswerEnd> Sequence::pass(int32_t token, std::optional<TokenScore> score) {
  const auto ended = sequence.take(token, [&](int32_t passed) -> Result<bool> {
    AnswerPiece piece = {passed, {}, std::move(score)};
    const bool isStopped = text && text->take(passed, piece.text);
    shared->addPiece(std::move(piece));
    return !isStopped;
  });
  if (!*ended)
    return std::nullopt;
  return end(**ended == GenerationEnd::kLength ? AnswerEnd::kLength : AnswerEnd::kStop);
}

std::optional<AnswerEnd> Sequence::finishStep() {
  if (!error.isOk()) {
    endAs(errorEnd, error);
    return errorEnd;
  }
  if (!ahead.empty()) {
    [[maybe_unused]] const bool isRewound =
        ownSession->rewind(static_cast<uint32_t>(tokens().size() + confirmedAhead()));
    assert(isRewound);
    ahead.clear();
  }
  if (sampled.empty() && !isChoosing() && sequence.rest(*ownSession) == 0)
    return end(AnswerEnd::kLength);
  const bool isAny = !sampled.empty();
  std::optional<AnswerEnd> ended;
  for (size_t i = 0; i < sampled.size() && !ended; ++i)
    ended = pass(sampled[i].token, std::move(sampled[i].score));
  sampled.clear();
  if (isAny && !ended && !isChoosing() && constraint && constraint->hasEnded())
    ended = end(AnswerEnd::kStop);
  return ended;
}

std::vector<int32_t> Sequence::computedTokens() const {
  const size_t computed = std::min<size_t>(tokens().size(), ownSession ? ownSession->length() : 0);
  return {tokens().begin(), tokens().begin() + static_cast<std::ptrdiff_t>(computed)};
}

} // namespace moert
