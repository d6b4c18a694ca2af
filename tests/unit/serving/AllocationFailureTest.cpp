// Any allocation of the serving loop's thread may fail: the sequences that need it end for lack of
// memory, and the loop goes on.
#include "runtime/serving/ServingLoop.h"
#include "tests/unit/serving/ServingFixture.h"
#include "tests/unit/support/FailAllocations.h"

#include <doctest/doctest.h>

#include <new>
#include <optional>

using namespace moert;
using namespace moert::test;

namespace {

constexpr ServingLimits kLimits = {64, 2, 3, 1, 192};

uint64_t endedOf(const SchedulerNumbers &numbers) {
  return numbers.stopped + numbers.full + numbers.cancelled + numbers.rejected + numbers.failed;
}

AnswerRequest requestWithScores() {
  AnswerRequest request = requestOf(promptOf(1, 20), 12);
  request.topScores = 3;
  return request;
}

/// Three requests, of which one waits for room; allocation `successes` of computing them fails.
/// Then another one.
struct Disturbed {
  std::vector<Served> served = std::vector<Served>(3);
  Served later;
  AllocationKind failed = AllocationKind::kNoAllocation;

  Disturbed(const ServedModel &model, uint64_t successes) {
    ServingLoop loop(*model.loaded.engine, kLimits);
    std::vector<std::shared_ptr<Answer>> answers;
    for (size_t i = 0; i < served.size(); ++i) {
      Submission submission = loop.submit({requestWithScores()});
      REQUIRE_FALSE(submission.refusal);
      answers.push_back(submission.answers[0]);
    }
    std::atomic<bool> stop = false;
    std::optional<FailingAllocation> failing;
    auto beforeStep = [&] {
      const uint64_t ended = endedOf(loop.numbers());
      if (ended == served.size() && failing) {
        failed = failing->failed();
        failing.reset();
        answers.push_back(loop.submit({requestWithScores()}).answers.at(0));
      }
      stop = ended > served.size();
    };
    const ServingHooks hooks = {beforeStep, {}};
    failing.emplace(successes);
    loop.run(stop, 10s, hooks);
    for (size_t i = 0; i < served.size(); ++i)
      takeInto(served[i], *answers[i]);
    takeInto(later, *answers.back());
  }
};

} // namespace

TEST_CASE("whichever allocation fails while sequences are admitted and computed, they end, and the "
          "loop answers the next one") {
  ServedModel model(servingOptions(3));
  const Served alone = model.alone(requestWithScores());
  uint64_t failures = 0;
  for (bool hasFailed = true; hasFailed; ++failures) {
    const Disturbed disturbed(model, failures);
    CAPTURE(failures);
    for (const Served &served : disturbed.served) {
      CHECK((served.end == AnswerEnd::kLength || served.end == AnswerEnd::kNoMemory ||
             served.end == AnswerEnd::kFailed));
      if (served.end == AnswerEnd::kLength)
        CHECK(served.tokens == alone.tokens);
      else
        CHECK_FALSE(served.message.empty());
    }
    CHECK(disturbed.later.end == AnswerEnd::kLength);
    CHECK(disturbed.later.tokens == alone.tokens);
    hasFailed = disturbed.failed != AllocationKind::kNoAllocation;
  }
  CHECK(failures > 20); // There were some to fail.
}

TEST_CASE("a request that there is no memory to take is not taken in part, and the next one is") {
  ServedModel model(servingOptions(3));
  ServingLoop loop(*model.loaded.engine, kLimits);
  const std::vector<AnswerRequest> both(2, requestWithScores());
  bool hasFailed = true;
  for (uint64_t successes = 0; hasFailed; ++successes) {
    std::vector<AnswerRequest> requests = both;
    std::optional<FailingAllocation> failing(successes);
    try {
      const Submission submission = loop.submit(std::move(requests));
      hasFailed = failing->failed() != AllocationKind::kNoAllocation;
      CHECK_FALSE(hasFailed);
      failing.reset();
      CHECK(submission.answers.size() == 2);
    } catch (const std::bad_alloc &) {
      failing.reset();
    }
  }
  // Four were taken at most: nothing of those that failed is left.
  CHECK(
      loop.submit({requestWithScores(), requestWithScores(), requestWithScores()}).answers.size() ==
      3);
}
