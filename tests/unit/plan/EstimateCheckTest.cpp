#include "compiler/plan/EstimateCheck.h"

#include <doctest/doctest.h>

using namespace moec;
using moert::Result;

TEST_CASE("a rank correlation is of the order alone") {
  const double values[] = {1, 2, 3, 4}, grown[] = {1, 10, 100, 1000}, fallen[] = {9, 8, 7, -6};
  CHECK(rankCorrelation(values, grown) == doctest::Approx(1));
  CHECK(rankCorrelation(values, fallen) == doctest::Approx(-1));
}

TEST_CASE("one pair out of order costs what Spearman's formula says") {
  // 1 - 6 * (1 + 1) / (4 * (16 - 1))
  const double values[] = {1, 2, 3, 4}, swapped[] = {1, 3, 2, 4};
  CHECK(rankCorrelation(values, swapped) == doctest::Approx(0.8));
}

TEST_CASE("equal values share the mean of their ranks, and say nothing if all are equal") {
  // Ranks 0.5 0.5 2 beside 0 1 2: 1.5 / sqrt(1.5 * 2).
  const double tied[] = {5, 5, 7}, values[] = {1, 2, 3}, same[] = {4, 4, 4};
  CHECK(rankCorrelation(tied, values) == doctest::Approx(0.8660254));
  CHECK(rankCorrelation(same, values) == 0);
}

namespace {

/// Items lose what a list says, and the judge remembers who was asked for.
struct ListedJudge : WidthJudge {
  std::vector<double> nats;
  std::vector<WidthAssignment> probed;

  Result<double> probe(const WidthAssignment &assignment) override {
    probed.push_back(assignment);
    double sum = 1;
    for (size_t i = 0; i < assignment.size(); ++i)
      sum += assignment[i] > 0 ? nats[i] : 0;
    return sum;
  }
  Result<Measurement> measure(const WidthAssignment &) override {
    return moert::failed("not asked");
  }
  Result<TestResult> accept(const WidthAssignment &, AcceptanceChain) override {
    return moert::failed("not asked");
  }
};

} // namespace

static WidthProblem problemOf(const std::vector<double> &estimates) {
  WidthProblem problem;
  for (double loss : estimates)
    problem.items.push_back({"item", {{8, 8, 0}, {4, 4, loss / 16}, {2, 2, loss}}});
  return problem;
}

TEST_CASE("experts are probed one at a time at their fewest bits, resident weights never") {
  const WidthProblem problem = problemOf({4, 1, 9, 3, 7, 2});
  ListedJudge judge;
  judge.nats = {4, 1, 9, 3, 7, 2};
  auto check = checkEstimates(problem, {false, true, false, false, true, false}, 2, judge);
  REQUIRE(check.isOk());
  CHECK(check->experts == 2);
  const std::vector<WidthAssignment> expected = {{2, 0, 0, 0, 0, 0}, {0, 0, 0, 2, 0, 0}};
  CHECK(judge.probed == expected);
  CHECK(check->rankCorrelation == doctest::Approx(1));
}

TEST_CASE("estimates in another order than the truth are told from right ones") {
  ListedJudge judge;
  judge.nats = {1, 3, 2, 4};
  auto check = checkEstimates(problemOf({1, 2, 3, 4}), std::vector<bool>(4), 100, judge);
  REQUIRE(check.isOk());
  CHECK(check->experts == 4);
  CHECK(check->rankCorrelation == doctest::Approx(0.8));
}

TEST_CASE("one expert has no order") {
  ListedJudge judge;
  judge.nats = {1, 2};
  CHECK_FALSE(checkEstimates(problemOf({1, 2}), std::vector<bool>(2), 1, judge).isOk());
}
