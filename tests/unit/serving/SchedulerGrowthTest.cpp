// Sequences that generate more than their sessions had room for at first.
#include "tests/unit/serving/ServingFixture.h"

#include <doctest/doctest.h>

using namespace moert;
using namespace moert::test;

namespace {

/// Blocks have 32 tokens: each prompt begins with one, and each answer needs a second one.
std::vector<AnswerRequest> growingRequests(uint32_t count) {
  std::vector<AnswerRequest> requests;
  for (uint32_t i = 0; i < count; ++i) {
    requests.push_back(requestOf({static_cast<int32_t>(i), 7, 5, 3}, 40 + i));
    requests.back().sampling.temperature = i % 2 == 0 ? 0.f : 1.5f;
    requests.back().sampling.seed = i;
    requests.back().sampling.presencePenalty = 1;
    requests.back().topScores = 2;
  }
  return requests;
}

} // namespace

TEST_CASE("sequences are admitted with room for a part of their answers, and grow") {
  ServedModel model(servingOptions(4));
  Scheduler scheduler(*model.loaded.engine, {3, 0, 4 * 64, 4});
  std::vector<std::shared_ptr<Answer>> answers;
  for (const AnswerRequest &request : growingRequests(3))
    answers.push_back(model.add(scheduler, request));
  REQUIRE(scheduler.step());
  CHECK(scheduler.numbers().running == 3);
  CHECK(scheduler.numbers().sessionTokens == 3 * 32);
  while (scheduler.step()) {
  }
  for (const auto &answer : answers) {
    Served served;
    takeInto(served, *answer);
    CHECK(served.end == AnswerEnd::kLength);
  }
  CHECK(scheduler.numbers().interrupted == 0);
  // Copied, not computed again.
  CHECK(scheduler.numbers().promptTokens == 3 * 4);
}

TEST_CASE("a sequence without room gives way to those that came before, and its answer stays") {
  for (bool hasStates : {false, true}) {
    CAPTURE(hasStates);
    SyntheticOptions options;
    options.hasStates = hasStates;
    ServedModel model(servingOptions(4), options);
    const std::vector<AnswerRequest> requests = growingRequests(5);
    std::vector<Served> expected;
    for (const AnswerRequest &request : requests)
      expected.push_back(model.alone(request));
    for (uint64_t pool : {64, 96, 128}) {
      CAPTURE(pool);
      Scheduler scheduler(*model.loaded.engine, {3, 1, pool, 4});
      std::vector<std::shared_ptr<Answer>> answers;
      for (const AnswerRequest &request : requests)
        answers.push_back(model.add(scheduler, request));
      while (scheduler.step())
        CHECK(scheduler.numbers().sessionTokens <= pool);
      CHECK(scheduler.numbers().interrupted > 0);
      CHECK(scheduler.numbers().sessionTokens == 0);
      std::vector<Served> together(requests.size());
      for (size_t i = 0; i < requests.size(); ++i)
        takeInto(together[i], *answers[i]);
      for (size_t i = 0; i < requests.size(); ++i) {
        CAPTURE(i);
        CHECK(together[i].end == AnswerEnd::kLength);
        CHECK(together[i].tokens == expected[i].tokens);
        REQUIRE(together[i].scores.size() == expected[i].scores.size());
        for (size_t k = 0; k < expected[i].scores.size(); ++k)
          CHECK(together[i].scores[k].logProbability == expected[i].scores[k].logProbability);
      }
    }
  }
}
