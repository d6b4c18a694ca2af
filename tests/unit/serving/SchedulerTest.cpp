// Several sequences at a time: their answers, their turns and the room that they need.
#include "tests/unit/serving/ServingFixture.h"

#include <cmath>
#include <doctest/doctest.h>

using namespace moert;
using namespace moert::test;

namespace {

/// Prompts and answers of different lengths, greedy and sampled, with scores.
std::vector<AnswerRequest> mixedRequests() {
  std::vector<AnswerRequest> requests;
  for (uint32_t i = 0; i < 12; ++i) {
    AnswerRequest request = requestOf(promptOf(i, 1 + i * 5 % 37), 3 + i * 7 % 20);
    if (i % 3 != 0) {
      request.sampling.temperature = 1.5f;
      request.sampling.topK = i % 2 == 0 ? 0 : 20;
      request.sampling.seed = i;
    }
    request.topScores = i % 4;
    request.scoresPrompt = i % 5 == 0;
    requests.push_back(std::move(request));
  }
  return requests;
}

/// Every kind of keys and values, and states.
std::vector<SyntheticOptions> sequenceMemories() {
  std::vector<SyntheticOptions> all(4);
  all[1].kvKind = KvKind::kF16;
  all[2].kvKind = KvKind::kInt8;
  all[3].hasStates = true;
  return all;
}

void checkSame(const std::vector<TokenScore> &a, const std::vector<TokenScore> &b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].token == b[i].token);
    CHECK(a[i].logProbability == b[i].logProbability);
    CHECK(a[i].top == b[i].top);
  }
}

} // namespace

TEST_CASE("an answer has the same tokens and scores alone and among others, to the bit") {
  for (const SyntheticOptions &options : sequenceMemories()) {
    CAPTURE(options.hasStates);
    CAPTURE(int(options.kvKind));
    ServedModel model(servingOptions(5), options);
    const std::vector<AnswerRequest> requests = mixedRequests();
    Scheduler scheduler(*model.loaded.engine, {5, 0, 5 * 64});
    std::vector<std::shared_ptr<Answer>> answers;
    // They come one by one while others are computed.
    for (const AnswerRequest &request : requests) {
      answers.push_back(model.add(scheduler, request));
      scheduler.step();
      scheduler.step();
    }
    while (scheduler.step()) {
    }
    CHECK(scheduler.numbers().steps < 140); // Alone they take 162 steps of generated tokens.
    for (size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      Served served;
      takeInto(served, *answers[i]);
      CHECK(served.end == AnswerEnd::kLength);
      CHECK(served.tokens.size() == requests[i].maxTokens);
      const Served alone = model.alone(requests[i]);
      CHECK(served.tokens == alone.tokens);
      checkSame(served.scores, alone.scores);
      checkSame(served.promptScores, alone.promptScores);
    }
  }
}

TEST_CASE(
    "every step has a token for each sequence that generates, while a long prompt is computed") {
  ServedModel model(servingOptions(2));
  Scheduler scheduler(*model.loaded.engine, {2, 0, 128});
  const auto first = model.add(scheduler, requestOf(promptOf(1, 2), 30));
  REQUIRE(scheduler.step());
  const auto second = model.add(scheduler, requestOf(promptOf(2, 40), 2));
  Served served, late;
  takeInto(served, *first);
  // 8 tokens a step, one of them for the first sequence: 40 tokens take 6 steps.
  for (uint32_t step = 1; step <= 6; ++step) {
    CHECK(late.tokens.empty());
    REQUIRE(scheduler.step());
    takeInto(served, *first);
    takeInto(late, *second);
    CHECK(served.tokens.size() == 1 + step);
  }
  CHECK(late.tokens.size() == 1);
}

TEST_CASE("prompts take turns: a short one does not wait for the end of a long one") {
  ServedModel model(servingOptions(2));
  Scheduler scheduler(*model.loaded.engine, {2, 0, 128});
  const auto longer = model.add(scheduler, requestOf(promptOf(1, 60), 1));
  const auto shorter = model.add(scheduler, requestOf(promptOf(2, 8), 1));
  Served first, second;
  REQUIRE(scheduler.step());
  REQUIRE(scheduler.step());
  takeInto(second, *shorter);
  takeInto(first, *longer);
  CHECK(second.end == AnswerEnd::kLength);
  CHECK_FALSE(first.end);
}

TEST_CASE(
    "a sequence waits until there is room for all its tokens, and those that came first go first") {
  ServedModel model(servingOptions(3));
  Scheduler scheduler(*model.loaded.engine, {3, 0, 96});
  // A block has 32 tokens: 64 and 64 of 96, then 32.
  const auto first = model.add(scheduler, requestOf(promptOf(1, 8), 30));
  const auto second = model.add(scheduler, requestOf(promptOf(2, 8), 30));
  const auto third = model.add(scheduler, requestOf(promptOf(3, 8), 2));
  REQUIRE(scheduler.step());
  CHECK(scheduler.numbers().running == 1);
  CHECK(scheduler.numbers().waiting == 2);
  CHECK(scheduler.numbers().sessionTokens == 64);
  Served served;
  while (!served.end) {
    REQUIRE(scheduler.step());
    takeInto(served, *first);
  }
  REQUIRE(scheduler.step());
  CHECK(scheduler.numbers().running == 2);
  CHECK(scheduler.numbers().sessionTokens == 96);
  while (scheduler.step()) {
  }
  Served other, last;
  takeInto(other, *second);
  takeInto(last, *third);
  CHECK(other.tokens.size() == 30);
  CHECK(last.tokens.size() == 2);
}

TEST_CASE("a cancelled sequence ends before its next token, and its room is free") {
  ServedModel model(servingOptions(1));
  Scheduler scheduler(*model.loaded.engine, {1, 0, 64});
  const auto running = model.add(scheduler, requestOf(promptOf(1, 4), 50));
  const auto waiting = model.add(scheduler, requestOf(promptOf(2, 4), 50));
  const auto last = model.add(scheduler, requestOf(promptOf(3, 4), 2));
  for (int step = 0; step < 5; ++step)
    REQUIRE(scheduler.step());
  running->cancel();
  waiting->cancel();
  REQUIRE(scheduler.step());
  Served ended, never, other;
  takeInto(ended, *running);
  takeInto(never, *waiting);
  takeInto(other, *last);
  CHECK(ended.end == AnswerEnd::kCancelled);
  CHECK(ended.tokens.size() == 5);
  CHECK(never.end == AnswerEnd::kCancelled);
  CHECK(never.tokens.empty());
  CHECK(other.tokens.size() == 1);
  CHECK(scheduler.numbers().cancelled == 2);
}

TEST_CASE("a step that fails ends its sequences with the reason, and later ones are computed") {
  ServedModel model(servingOptions(2));
  Scheduler scheduler(*model.loaded.engine, {2, 0, 128});
  const auto first = model.add(scheduler, requestOf(promptOf(1, 4), 5));
  // Longer than the engine's context of 64 tokens.
  AnswerRequest impossible = requestOf(promptOf(2, 4), 5);
  impossible.maxTokens = 70;
  const auto second = model.add(scheduler, impossible);
  while (scheduler.step()) {
  }
  Served served, refused;
  takeInto(served, *first);
  takeInto(refused, *second);
  CHECK(served.end == AnswerEnd::kLength);
  CHECK(refused.end == AnswerEnd::kFailed);
  CHECK(refused.message == "a session of 74 tokens, expected 1 to the context of 64");
  CHECK(scheduler.numbers().failed == 1);
  CHECK(scheduler.numbers().full == 1);
}

namespace {

void finishAll(Scheduler &scheduler) {
  while (scheduler.step()) {
  }
}

} // namespace

TEST_CASE(
    "a prompt that begins as an earlier sequence takes over its tokens and has the same answer") {
  for (const SyntheticOptions &options : sequenceMemories()) {
    CAPTURE(options.hasStates);
    CAPTURE(int(options.kvKind));
    ServedModel model(servingOptions(4), options);
    Scheduler scheduler(*model.loaded.engine, {2, 2, 4 * 64});
    Served first, turn, branch;
    const auto before = model.add(scheduler, requestOf(promptOf(1, 20), 6));
    finishAll(scheduler);
    takeInto(first, *before);
    CHECK(first.cachedTokens == 0);

    // The session has all but the last generated token.
    const AnswerRequest continued =
        requestOf(joined(joined(promptOf(1, 20), first.tokens), promptOf(2, 5)), 6);
    const auto second = model.add(scheduler, continued);
    const uint64_t computed = scheduler.numbers().promptTokens;
    finishAll(scheduler);
    takeInto(turn, *second);
    CHECK(turn.cachedTokens == 25);
    CHECK(scheduler.numbers().promptTokens - computed == 6);
    CHECK(turn.tokens == model.alone(continued).tokens);

    // A state is that of all tokens: a part of the sequence cannot be taken over.
    const AnswerRequest other = requestOf(joined(promptOf(1, 18), promptOf(3, 5)), 6);
    const auto third = model.add(scheduler, other);
    finishAll(scheduler);
    takeInto(branch, *third);
    CHECK(branch.cachedTokens == (options.hasStates ? 0 : 18));
    CHECK(branch.tokens == model.alone(other).tokens);
    CHECK(scheduler.numbers().cachedTokens == (options.hasStates ? 25 : 43));
  }
}

TEST_CASE("the same prompt at the same time is computed once") {
  ServedModel model(servingOptions(4));
  Scheduler scheduler(*model.loaded.engine, {4, 0, 4 * 64});
  std::vector<std::shared_ptr<Answer>> answers;
  std::vector<AnswerRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back(requestOf(promptOf(7, 40), 4 + i));
    requests.back().sampling.temperature = 1;
    requests.back().sampling.seed = i;
    answers.push_back(model.add(scheduler, requests.back()));
  }
  finishAll(scheduler);
  CHECK(scheduler.numbers().promptTokens == 40 + 3);
  for (uint32_t i = 0; i < 4; ++i) {
    Served served;
    takeInto(served, *answers[i]);
    CHECK(served.cachedTokens == (i == 0 ? 0 : 39));
    CHECK(served.tokens == model.alone(requests[i]).tokens);
  }
}

TEST_CASE("a prompt that repeats an answer under way does not wait for that answer's end") {
  for (bool hasStates : {false, true}) {
    CAPTURE(hasStates);
    SyntheticOptions options;
    options.hasStates = hasStates;
    ServedModel model(servingOptions(4), options);
    const AnswerRequest request = requestOf(promptOf(7, 20), 30);
    AnswerRequest next = requestOf(joined(request.prompt, model.alone(request).tokens), 3);
    Scheduler scheduler(*model.loaded.engine, {2, 1, 4 * 64});
    model.add(scheduler, request);
    for (int step = 0; step < 8; ++step) // 3 for the prompt.
      REQUIRE(scheduler.step());
    const auto answer = model.add(scheduler, next);
    REQUIRE(scheduler.step());
    CHECK(scheduler.numbers().running == 2);
    finishAll(scheduler);
    Served served;
    takeInto(served, *answer);
    CHECK(served.tokens == model.alone(next).tokens);
  }
}

TEST_CASE("kept sequences give way to those that need their room, the oldest first") {
  ServedModel model(servingOptions(4));
  Scheduler scheduler(*model.loaded.engine, {1, 3, 128});
  for (uint32_t seed : {1, 2, 3}) {
    model.add(scheduler, requestOf(promptOf(seed, 20), 4));
    finishAll(scheduler);
  }
  auto cachedOf = [&](std::vector<int32_t> prompt, uint32_t tokens) {
    Served served;
    const auto answer = model.add(scheduler, requestOf(std::move(prompt), tokens));
    finishAll(scheduler);
    takeInto(served, *answer);
    CHECK(served.end == AnswerEnd::kLength);
    return served.cachedTokens;
  };
  // Three blocks of 32 are kept, one is free: two more are needed.
  CHECK(cachedOf(promptOf(4, 20), 44) == 0);
  CHECK(cachedOf(promptOf(1, 20), 4) == 0); // Ended; and so is the second one now.
  CHECK(cachedOf(promptOf(3, 20), 4) == 19);
  CHECK(cachedOf(promptOf(2, 20), 4) == 0);
}

TEST_CASE("a prefix is only copied from and to sessions that it fits") {
  ServedModel model(servingOptions(3));
  Engine &engine = *model.loaded.engine;
  auto source = engine.createSession(64).value(), target = engine.createSession(32).value();
  Silent silent;
  REQUIRE(engine.prefill({source.get(), promptOf(1, 40)}, silent).isOk());
  CHECK(engine.copyPrefix(*source, *target, 33).message() ==
        "a prefix of 33 tokens, expected at most the source's 40 and the target's 32");
  CHECK(engine.copyPrefix(*target, *source, 0).message().find("a session with 40 tokens") == 0);
  REQUIRE(engine.copyPrefix(*source, *target, 20).isOk());
  CHECK(target->length() == 20);
  ServedModel other(servingOptions(1));
  auto foreign = other.loaded.engine->createSession(32).value();
  CHECK(engine.copyPrefix(*source, *foreign, 20).message() ==
        "a session that is not one of this engine, or has ended");
}

TEST_CASE("a prompt is scored without generating") {
  ServedModel model(servingOptions(1));
  AnswerRequest request = requestOf(kPrompt, 0);
  request.scoresPrompt = true;
  request.topScores = 2;
  const Served served = model.alone(request);
  CHECK(served.end == AnswerEnd::kLength);
  CHECK(served.tokens.empty());
  REQUIRE(served.promptScores.size() == kPrompt.size() - 1);
  for (size_t i = 0; i < served.promptScores.size(); ++i) {
    const TokenScore &score = served.promptScores[i];
    CHECK(score.token == kPrompt[i + 1]);
    REQUIRE(score.top.size() == 2);
    CHECK(score.top[0].second >= score.top[1].second);
    CHECK(score.top[0].second >= score.logProbability);
  }
}

TEST_CASE("the best scores are sorted, ties by index, and their probabilities sum to one") {
  const std::vector<float> logits = {0.5f, 2, -1, 2, 0.25f};
  auto all = scoreToken(logits, 2, 10);
  REQUIRE(all.isOk());
  REQUIRE(all->top.size() == 5);
  std::vector<int32_t> order;
  double sum = 0;
  for (const auto &[token, logProbability] : all->top) {
    order.push_back(token);
    sum += std::exp(logProbability);
  }
  CHECK(order == std::vector<int32_t>{1, 3, 0, 4, 2});
  CHECK(sum == doctest::Approx(1).epsilon(1e-12)); // Five terms, each within a few units of 1e-16.
  CHECK(all->top[4].second == all->logProbability);
  CHECK(scoreToken(logits, 1, 0)->top.empty());
  CHECK_FALSE(scoreToken(std::vector<float>{0, NAN}, 0, 1).isOk());
}

TEST_CASE("requests that no sequence can answer are refused") {
  ServedModel model(servingOptions(1));
  auto refusal = [&](const AnswerRequest &request) {
    auto sequence = Sequence::create(*model.loaded.model, request, std::make_shared<Answer>());
    return sequence.status().message();
  };
  CHECK(refusal(requestOf({}, 1)) == "the prompt has no tokens, expected at least one");
  CHECK(refusal(requestOf({5, 96}, 1)) == "token id 96, expected 0 to 95");
  AnswerRequest hot = requestOf({5}, 1), stop = requestOf({5}, 1);
  hot.sampling.temperature = -1;
  stop.stopTexts = {"x"};
  CHECK(refusal(hot) == "temperature -1, expected a finite number of at least 0 (0 is greedy)");
  CHECK(refusal(stop) == "stop texts for a model without a tokenizer, expected none");
}

TEST_CASE("a sequence whose client takes nothing pauses, and the others continue") {
  ServedModel model(servingOptions(2));
  Scheduler scheduler(*model.loaded.engine, {2, 0, 128});
  AnswerRequest request = requestOf({1, 2}, 60);
  request.topScores = kVocabulary; // 60 tokens have more than an answer holds.
  const auto unread = model.add(scheduler, request);
  const auto other = model.add(scheduler, requestOf({3, 4}, 60));
  while (scheduler.step()) {
  }
  CHECK(scheduler.hasPaused());
  CHECK(unread->isFull());
  Served served, slow;
  takeInto(served, *other);
  CHECK(served.tokens.size() == 60);
  while (!slow.end) {
    takeInto(slow, *unread);
    CHECK((slow.end || scheduler.step()));
  }
  CHECK(slow.tokens == model.alone(requestOf({1, 2}, 60)).tokens);
}

TEST_CASE("a sequence that waits has no memory for sampling") {
  ServedModel model(servingOptions(1));
  Scheduler scheduler(*model.loaded.engine, {1, 0, 64});
  AnswerRequest request = requestOf({1, 2}, 4);
  request.sampling.temperature = 1;
  request.sampling.topP = 0.5f;
  request.sampling.presencePenalty = 1;
  auto answer = std::make_shared<Answer>();
  auto sequence = Sequence::create(*model.loaded.model, request, answer).value();
  CHECK_FALSE(sequence->hasSampler());
  Sequence &waiting = *sequence;
  const auto first = model.add(scheduler, requestOf({3, 4}, 2));
  scheduler.add(std::move(sequence));
  REQUIRE(scheduler.step());
  CHECK_FALSE(waiting.hasSampler());
  REQUIRE(scheduler.step());
  REQUIRE(scheduler.step());
  CHECK(waiting.hasSampler());
}

TEST_CASE("sequences that a small chunk has no room for take turns, and their answers stay") {
  for (bool hasStates : {false, true})
    for (uint32_t chunk : {1u, 2u}) {
      CAPTURE(hasStates);
      CAPTURE(chunk);
      SyntheticOptions options;
      options.hasStates = hasStates;
      EngineOptions small = servingOptions(6);
      small.prefillChunk = chunk;
      ServedModel model(small, options);
      // Interrupted ones come back, some with all but one of their tokens taken over.
      std::vector<AnswerRequest> requests;
      for (uint32_t i = 0; i < 5; ++i)
        requests.push_back(requestOf(promptOf(i / 2, 20), 30 + i));
      Scheduler scheduler(*model.loaded.engine, {5, 1, 3 * 32, 4});
      std::vector<std::shared_ptr<Answer>> answers;
      for (const AnswerRequest &request : requests)
        answers.push_back(model.add(scheduler, request));
      while (scheduler.step()) {
      }
      CHECK(scheduler.numbers().interrupted > 0);
      std::vector<Served> together(requests.size());
      for (size_t i = 0; i < requests.size(); ++i)
        takeInto(together[i], *answers[i]);
      for (size_t i = 0; i < requests.size(); ++i) {
        CAPTURE(i);
        CHECK(together[i].message == "");
        CHECK(together[i].end == AnswerEnd::kLength);
        CHECK(together[i].tokens == model.alone(requests[i]).tokens);
      }
    }
}
