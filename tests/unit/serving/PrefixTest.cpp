// Prompts that begin alike, in a model with recurrent states, which exist for whole sequences only.
#include "tests/unit/serving/ServingFixture.h"

#include <doctest/doctest.h>

using namespace moert;
using namespace moert::test;

namespace {

/// A scheduler of a model with states, whose answers are compared with those that each request gets
/// alone.
struct Stateful {
  explicit Stateful(SchedulerLimits limits, uint32_t sessions = 6)
      : model(servingOptions(sessions), withStates()), scheduler(*model.loaded.engine, limits) {}

  static SyntheticOptions withStates() {
    SyntheticOptions options;
    options.hasStates = true;
    return options;
  }

  std::shared_ptr<Answer> add(const AnswerRequest &request) {
    return model.add(scheduler, request);
  }
  void finish() {
    while (scheduler.step()) {
    }
  }
  /// Checks the answer and returns how many tokens were taken over.
  uint32_t check(Answer &answer, const AnswerRequest &request) const {
    Served served;
    takeInto(served, answer);
    CHECK(served.end == AnswerEnd::kLength);
    const Served alone = model.alone(request);
    CHECK(served.tokens == alone.tokens);
    REQUIRE(served.scores.size() == alone.scores.size());
    for (size_t i = 0; i < alone.scores.size(); ++i)
      CHECK(served.scores[i].logProbability == alone.scores[i].logProbability);
    return served.cachedTokens;
  }
  uint32_t ask(const AnswerRequest &request) {
    const auto answer = add(request);
    finish();
    return check(*answer, request);
  }

  ServedModel model;
  Scheduler scheduler;
};

/// A question after a system message of 20 tokens; the request may say how long it is.
AnswerRequest question(uint32_t seed, uint32_t sharedTokens) {
  AnswerRequest request = requestOf(joined(promptOf(1, 20), promptOf(seed, 9)), 5);
  request.topScores = 1;
  request.sharedTokens = sharedTokens;
  return request;
}

} // namespace

TEST_CASE("a system message whose length the request has is computed once") {
  Stateful served({2, 3, 5 * 64});
  CHECK(served.ask(question(2, 20)) == 0);
  CHECK(served.ask(question(3, 20)) == 20);
  CHECK(served.ask(question(4, 20)) == 20);
  CHECK(served.scheduler.numbers().promptTokens == 29 + 9 + 9);
}

TEST_CASE("a beginning that two prompts have is computed twice, and taken over from then on") {
  Stateful served({2, 3, 5 * 64});
  CHECK(served.ask(question(2, 0)) == 0);
  CHECK(served.ask(question(3, 0)) == 0);
  CHECK(served.ask(question(4, 0)) == 20);
  // The turns of a conversation continue the whole sequence, and leave the beginning to others.
  AnswerRequest next = question(4, 0);
  next.prompt = joined(joined(next.prompt, served.model.alone(next).tokens), promptOf(5, 3));
  CHECK(served.ask(next) == 20 + 9 + 4);
  CHECK(served.ask(question(6, 0)) == 20);
}

TEST_CASE("sequences that arrive together compute what they share once") {
  Stateful served({4, 2, 6 * 64});
  std::vector<AnswerRequest> requests;
  std::vector<std::shared_ptr<Answer>> answers;
  for (uint32_t seed : {2u, 3u, 4u})
    requests.push_back(question(seed, 20));
  requests.push_back(requests.front()); // Another choice for the same prompt.
  requests.back().sampling.temperature = 1;
  for (const AnswerRequest &request : requests)
    answers.push_back(served.add(request));
  served.finish();
  std::vector<uint32_t> cached;
  for (size_t i = 0; i < requests.size(); ++i)
    cached.push_back(served.check(*answers[i], requests[i]));
  // The last one has the whole prompt of the first.
  CHECK(cached == std::vector<uint32_t>{0, 20, 20, 28});
}

TEST_CASE("choices of one prompt compute it once") {
  Stateful served({4, 2, 6 * 64});
  std::vector<AnswerRequest> requests(4, question(2, 0));
  std::vector<std::shared_ptr<Answer>> answers;
  for (uint64_t seed = 0; seed < requests.size(); ++seed) {
    requests[seed].sampling.temperature = 1;
    requests[seed].sampling.seed = seed;
    answers.push_back(served.add(requests[seed]));
  }
  served.finish();
  for (size_t i = 0; i < requests.size(); ++i)
    CHECK(served.check(*answers[i], requests[i]) == (i == 0 ? 0 : 28));
  CHECK(served.scheduler.numbers().promptTokens == 29 + 3);
}

TEST_CASE("copies give way to running sequences, and there are none where nothing is kept") {
  Stateful small({1, 3, 64}); // Room for two blocks: one sequence needs both.
  for (uint32_t seed : {2u, 3u, 4u})
    small.ask(question(seed, 20));
  CHECK(small.scheduler.numbers().interrupted == 0);
  Stateful forgetful({2, 0, 5 * 64});
  for (uint32_t seed : {2u, 3u})
    CHECK(forgetful.ask(question(seed, 20)) == 0);
}
