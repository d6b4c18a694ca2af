#include "compiler/plan/LimitBisection.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moec;
using moert::Result;

namespace {

/// One item of five widths, each with a bound of its own; the target is 1.
struct Bisection : WidthJudge {
  WidthSearchInput input;
  double bounds[5] = {};
  WidthTrials trials;

  Bisection() : input(oneItem()), trials(input, *this) {}

  static WidthSearchInput oneItem() {
    WidthSearchInput one;
    one.problem.items = {
        {"item", {{8, 800, 0}, {6, 600, 1}, {4, 400, 2}, {3, 300, 3}, {2, 299, 4}}}};
    one.groups = {0};
    one.isProbedDirectly = {false};
    one.target = 1;
    return one;
  }

  void measured(uint32_t option, double limit, double bound) {
    bounds[option] = bound;
    REQUIRE(*trials.measure("mckp", {option}, limit));
  }
  std::optional<double> next() const { return nextLimit(trials, input.problem, kKnapsackSolver); }

  Result<double> probe(const WidthAssignment &) override { return 0.0; }
  Result<Measurement> measure(const WidthAssignment &assignment) override {
    return Measurement{bounds[assignment[0]], bounds[assignment[0]], {}, 0};
  }
  Result<TestResult> accept(const WidthAssignment &, AcceptanceChain) override {
    return TestResult::kFailed;
  }
};

} // namespace

TEST_CASE("between two limits the next lies where their line in logarithms meets the threshold") {
  Bisection bisection;
  bisection.measured(1, 0.1, 0.25);
  bisection.measured(3, 0.4, 4); // As the square of the limit: 1 at 0.2.
  REQUIRE(bisection.next());
  CHECK(*bisection.next() == doctest::Approx(0.2));
}

TEST_CASE("the next limit keeps a tenth of the way from either end") {
  Bisection bisection;
  bisection.measured(1, 0.1, 0.999);
  bisection.measured(3, 1, 1000);
  REQUIRE(bisection.next());
  CHECK(*bisection.next() == doctest::Approx(0.1 * std::pow(10, 0.1)));
}

TEST_CASE("limits whose bytes are about the same are close enough") {
  Bisection bisection;
  bisection.measured(3, 0.3, 0.9);
  bisection.measured(4, 0.4, 1.1);
  CHECK_FALSE(bisection.next());
}

TEST_CASE("where every limit met the threshold the next is twice the largest") {
  Bisection bisection;
  bisection.measured(0, 0.1, 0.2);
  bisection.measured(1, 0.3, 0.5);
  REQUIRE(bisection.next());
  CHECK(*bisection.next() == doctest::Approx(0.6));
}

TEST_CASE("where no limit met the threshold the next is smaller in proportion") {
  Bisection bisection;
  bisection.measured(3, 0.4, 2);
  REQUIRE(bisection.next());
  CHECK(*bisection.next() == doctest::Approx(0.2));
}

TEST_CASE("what was measured without a limit stands at what it is estimated to lose") {
  Bisection bisection;
  bisection.measured(2, std::nan(""), 2); // Estimated to lose 2 nats.
  REQUIRE(bisection.next());
  CHECK(*bisection.next() == doctest::Approx(1));
}

TEST_CASE("before anything was measured the limit is what an assignment loses on average") {
  Bisection bisection;
  REQUIRE(bisection.next());
  CHECK(*bisection.next() == doctest::Approx((0 + 1 + 2 + 3 + 4) / 5.0));
}
