#include "compiler/plan/WidthProblem.h"

#include <doctest/doctest.h>

#include <limits>
#include <utility>

using namespace moec;
using moert::StatusCode;

static WidthProblem twoExperts() {
  return {{{"layer 0 expert 0", {{8, 80, 0.0}, {4, 40, 0.01}, {2, 20, 0.1}}},
           {"layer 0 expert 1", {{8, 80, 0.0}, {4, 40, 0.02}}}},
          0.05};
}

static void checkRefused(const moert::Status &status, const std::string &mention) {
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find(mention) != std::string::npos);
}

TEST_CASE("a problem of items with options of falling widths is accepted") {
  CHECK(check(twoExperts()).isOk());
}

TEST_CASE("a problem without items is refused") {
  checkRefused(check(WidthProblem{}), "nothing to choose");
}

TEST_CASE("an item without options is refused by its name") {
  WidthProblem problem = twoExperts();
  problem.items[1].options.clear();
  checkRefused(check(problem), "layer 0 expert 1");
}

TEST_CASE("options whose widths do not fall are refused") {
  WidthProblem problem = twoExperts();
  problem.items[0].options[1].bits = 8;
  checkRefused(check(problem), "fewer bits");
}

TEST_CASE("a wider down is an option between whole widths") {
  WidthProblem problem = twoExperts();
  problem.items[0].options = {{5, 50, 0}, {14.0 / 3, 47, 0.01}, {4, 40, 0.02}};
  CHECK(check(problem).isOk());
  std::swap(problem.items[0].options[1], problem.items[0].options[2]);
  checkRefused(check(problem), "an option of 4.66667 bits after one of 4,");
}

TEST_CASE("costs and losses that are negative or not finite are refused") {
  for (double bad :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    WidthProblem cost = twoExperts(), loss = twoExperts();
    cost.items[0].options[2].cost = bad;
    loss.items[0].options[2].loss = bad;
    checkRefused(check(cost), "cost");
    checkRefused(check(loss), "loss");
  }
}

TEST_CASE("a loss limit below nothing is refused") {
  WidthProblem problem = twoExperts();
  problem.lossLimit = -0.01;
  checkRefused(check(problem), "limit");
}

TEST_CASE("an assignment within the limit is verified") {
  CHECK(verify(twoExperts(), WidthAssignment{1, 1}).isOk());
}

TEST_CASE("an assignment beyond the limit is refused with both numbers") {
  moert::Status status = verify(twoExperts(), WidthAssignment{2, 0});
  checkRefused(status, "0.1");
  checkRefused(status, "0.05");
}

TEST_CASE("an assignment of another size is refused") {
  checkRefused(verify(twoExperts(), WidthAssignment{1}), "expected 2");
}

TEST_CASE("an option that does not exist is refused") {
  checkRefused(verify(twoExperts(), WidthAssignment{0, 2}), "layer 0 expert 1");
}

TEST_CASE("totals are the sums of the chosen options") {
  WidthTotals totals = totalsOf(twoExperts(), WidthAssignment{2, 1});
  CHECK(totals.cost == 60);
  CHECK(totals.loss == doctest::Approx(0.12));
}
