#include "compiler/search/AcceptanceTurn.h"

#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

using namespace moec;
using namespace moert;

namespace {

struct TurnFixture {
  TurnFixture() {
    subject.checkpoint = 1;
    subject.candidates = 2;
    subject.samples = 3;
    subject.target.mean = 0.02;
    subject.files = {4};
    subject.documents = {{5, 6}};
  }
  uint32_t taken() {
    auto turn = takeAcceptanceTurn(path, subject);
    REQUIRE_MESSAGE(turn.isOk(), turn.status().message());
    return turn->compile;
  }

  TemporaryDirectory directory;
  std::string path = directory.path("tests.jsonl");
  AcceptanceSubject subject;
};

} // namespace

TEST_CASE_FIXTURE(TurnFixture, "a change of anything that decides an answer is another compile") {
  CHECK(taken() == 1);
  CHECK(taken() == 1);
  ++subject.candidates;
  CHECK(taken() == 2);
  ++subject.samples;
  CHECK(taken() == 3);
  subject.metric = LossMetric::kKl;
  CHECK(taken() == 4);
  *subject.target.mean += 1e-12;
  CHECK(taken() == 5);
  subject.target.quantile = {0.9, 0.03};
  CHECK(taken() == 6);
  subject.files = {7}; // The same documents in another file: the same test.
  CHECK(taken() == 6);
  subject.documents = {{8, 9}};
  ++subject.candidates;
  CHECK(taken() == 1);
}

TEST_CASE_FIXTURE(TurnFixture, "a turn is found without being taken") {
  CHECK(findAcceptanceTurn(path, subject)->compile == 1);
  ++subject.candidates;
  CHECK(findAcceptanceTurn(path, subject)->compile == 1);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE_FIXTURE(TurnFixture, "a tenth compile is refused, with the record and what helps") {
  for (uint32_t compile = 1; compile <= kMaxCompilesOfText; ++compile) {
    ++subject.candidates;
    CHECK(taken() == compile);
  }
  ++subject.candidates;
  for (const auto &turn : {findAcceptanceTurn(path, subject), takeAcceptanceTurn(path, subject)}) {
    CHECK(turn.status().code() == StatusCode::kInvalidInput);
    CHECK(turn.status().message().find(path) != std::string::npos);
    CHECK(turn.status().message().find("expected new documents") != std::string::npos);
  }
}

TEST_CASE("chains divide a level, and one below every bound is refused with its reason") {
  AcceptanceTurn turn{1, *acceptanceLevels(1), "log.jsonl"};
  CHECK(*confidenceOfChains(turn, 1) == doctest::Approx(0.964));
  CHECK(*confidenceOfChains(turn, 3) == doctest::Approx(0.988));
  CHECK(confidenceOfChains(turn, 361).status().message().find("expected fewer of --memory") !=
        std::string::npos);
  turn = {2, *acceptanceLevels(2), "log.jsonl"};
  CHECK(*confidenceOfChains(turn, 1) == doctest::Approx(0.99985));
  CHECK(confidenceOfChains(turn, 2).status().message() ==
        "2 series of tests, plan by plan, have an error of 0.015% together, and no bound has less "
        "than 0.01% for each. This is compile 2 that tests this checkpoint on these documents "
        "(log.jsonl), and the first has used most of their error; expected new documents with "
        "--eval-text");
}
