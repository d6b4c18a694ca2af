#include "compiler/plan/WidthSolvers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

using namespace moec;

// Items of which a bit less costs about four times the loss, as quantization does, each with a
// sensitivity of its own.
static WidthProblem randomProblem(std::mt19937 &random, size_t items, double limit) {
  std::uniform_real_distribution<double> unit(0, 1);
  WidthProblem problem;
  problem.lossLimit = limit;
  for (size_t i = 0; i < items; ++i) {
    double sensitivity = std::exp(4 * unit(random));
    double bytes = 100 + std::floor(50 * unit(random));
    WidthItem item{"item " + std::to_string(i), {}};
    for (uint32_t bits : {8u, 6u, 4u, 3u, 2u})
      item.options.push_back({double(bits), bytes * bits,
                              sensitivity * std::pow(4.0, -double(bits)) * (0.5 + unit(random))});
    problem.items.push_back(item);
  }
  return problem;
}

static std::optional<double> bruteForceCost(const WidthProblem &problem) {
  std::optional<double> best;
  WidthAssignment assignment(problem.items.size(), 0);
  while (true) {
    WidthTotals totals = totalsOf(problem, assignment);
    if (totals.loss <= problem.lossLimit && (!best || totals.cost < *best))
      best = totals.cost;
    size_t i = 0;
    while (i < assignment.size() && ++assignment[i] == problem.items[i].options.size())
      assignment[i++] = 0;
    if (i == assignment.size())
      return best;
  }
}

static double costOf(const WidthProblem &problem, const WidthAssignment &assignment) {
  return totalsOf(problem, assignment).cost;
}

TEST_CASE("the knapsack stays within the limit and close to the best of all assignments") {
  std::mt19937 random(7);
  int exact = 0, solved = 0;
  for (int round = 0; round < 200; ++round) {
    WidthProblem problem = randomProblem(random, 5, 0.05 * (1 + round % 20));
    std::optional<double> best = bruteForceCost(problem);
    auto found = solveKnapsack(problem);
    REQUIRE(found.isOk() == best.has_value());
    if (!best)
      continue;
    REQUIRE(verify(problem, *found).isOk());
    double cost = costOf(problem, *found);
    REQUIRE(cost >= *best - 1e-9);
    REQUIRE(cost <= *best * 1.10);
    REQUIRE(knapsackLowerBound(problem) <= *best + 1e-9);
    ++solved;
    exact += cost <= *best + 1e-9;
  }
  CHECK(solved >= 150);
  CHECK(exact >= solved * 8 / 10);
}

TEST_CASE("with hundreds of items the knapsack is within a thousandth of its lower bound") {
  std::mt19937 random(11);
  for (double limit : {1.0, 5.0, 20.0}) {
    WidthProblem problem = randomProblem(random, 320, limit);
    auto found = solveKnapsack(problem);
    REQUIRE(found.isOk());
    REQUIRE(verify(problem, *found).isOk());
    CHECK(costOf(problem, *found) <= knapsackLowerBound(problem) * 1.001);
  }
}

TEST_CASE("the knapsack is never above uniform widths and EdgeMoE's list") {
  std::mt19937 random(13);
  int compared = 0;
  for (int round = 0; round < 50; ++round) {
    WidthProblem problem = randomProblem(random, 40, 0.1 * (1 + round));
    auto knapsack = solveKnapsack(problem);
    auto compare = [&](const WidthAssignment &other) {
      if (totalsOf(problem, other).loss > problem.lossLimit)
        return;
      REQUIRE(knapsack.isOk());
      CHECK(costOf(problem, *knapsack) <= costOf(problem, other) * 1.001);
      ++compared;
    };
    compare(uniformAssignment(problem, 8));
    for (auto [high, low] : {std::pair(8u, 6u), {6u, 4u}, {4u, 3u}, {3u, 2u}}) {
      const EdgeMoeList list = edgeMoeList(problem, high, low);
      for (size_t count = 0; count <= list.items.size(); ++count)
        compare(edgeMoeAssignment(problem, list, count));
    }
  }
  CHECK(compared >= 1000);
}

TEST_CASE("the knapsack takes an option that costs less and loses no more") {
  WidthProblem problem{{{"a", {{8, 80, 0.5}, {4, 40, 0.5}, {2, 50, 0.7}}}}, 0.5};
  auto found = solveKnapsack(problem);
  REQUIRE(found.isOk());
  CHECK(*found == WidthAssignment{1});
}

TEST_CASE("the knapsack fills what is left with options inside of the hull") {
  // The hull goes from 8 bits to 2 at once, which does not fit; 4 bits do.
  WidthProblem problem{{{"a", {{8, 80, 0}, {4, 60, 0.5}, {2, 20, 1}}}}, 0.6};
  auto found = solveKnapsack(problem);
  REQUIRE(found.isOk());
  CHECK(*found == WidthAssignment{1});
}

TEST_CASE("a limit that nothing meets is refused, naming the least loss") {
  WidthProblem problem{{{"a", {{8, 80, 0.25}, {4, 40, 0.5}}}}, 0.125};
  auto found = solveKnapsack(problem);
  REQUIRE_FALSE(found.isOk());
  CHECK(found.status().message().find("0.25") != std::string::npos);
}

TEST_CASE("uniform is one width for all, and the widest below it for items that lack it") {
  WidthProblem problem{{{"a", {{8, 80, 0}, {4, 40, 0.1}}}, {"b", {{16, 160, 0}, {3, 30, 0.1}}}},
                       0.2};
  CHECK(uniformAssignment(problem, 4) == WidthAssignment{1, 1});
  CHECK(uniformAssignment(problem, 8) == WidthAssignment{0, 1});
  CHECK(uniformAssignment(problem, 2) == WidthAssignment{1, 1});
}

// Experts that differ in sensitivity alone, at 5 bits, 4 with a down of 6, and 4. downError: down's
// part of the error where all matrices have one width. The limit is the loss of a width.
static WidthProblem expertsWithWiderDown(double downError, double limitAsOf) {
  WidthProblem problem;
  for (int i = 0; i < 60; ++i) {
    WidthItem item{"item " + std::to_string(i), {}};
    for (auto [bits, downBits] : {std::pair(5.0, 5.0), {4.0, 6.0}, {4.0, 4.0}}) {
      const double meanBits = (2 * bits + downBits) / 3;
      item.options.push_back({meanBits, 100 * meanBits,
                              std::exp(0.02 * i) * ((1 - downError) * std::pow(4.0, -bits) +
                                                    downError * std::pow(4.0, -downBits))});
    }
    problem.items.push_back(item);
  }
  problem.lossLimit =
      totalsOf(problem, uniformAssignment(problem, 4)).loss * std::pow(4.0, 4 - limitAsOf);
  return problem;
}

// A bit divides an error by 4, so down should be log4(2 * downError / (1 - downError)) bits wider:
// 1.5 bits at 0.8, and 0 at a third.
TEST_CASE("the knapsack takes a wider down where most of the error is down's") {
  const WidthProblem problem = expertsWithWiderDown(0.8, 4.9);
  const WidthAssignment found = solveKnapsack(problem).value();
  CHECK(std::count(found.begin(), found.end(), 1u) >= 30);
  WidthProblem single = problem;
  for (WidthItem &item : single.items)
    item.options.erase(item.options.begin() + 1);
  CHECK(costOf(problem, found) < 0.97 * costOf(single, solveKnapsack(single).value()));
}

TEST_CASE("the knapsack takes no wider down where down's error is that of its weights") {
  const WidthProblem problem = expertsWithWiderDown(1.0 / 3, 4.5);
  const WidthAssignment found = solveKnapsack(problem).value();
  CHECK(std::count(found.begin(), found.end(), 1u) <= 1); // What is left of the limit.
  CHECK(std::count(found.begin(), found.end(), 0u) >= 10);
  CHECK(std::count(found.begin(), found.end(), 2u) >= 10);
}

TEST_CASE("uniform widths count a wider down as its mean bits") {
  const WidthProblem problem = expertsWithWiderDown(0.5, 4);
  const auto allAt = [&](uint32_t option) { return WidthAssignment(problem.items.size(), option); };
  CHECK(uniformAssignment(problem, 5) == allAt(0));
  CHECK(uniformAssignment(problem, 14.0 / 3) == allAt(1));
  CHECK(uniformAssignment(problem, 4.5) == allAt(2));
  CHECK(uniformAssignment(problem, 4) == allAt(2));
}

TEST_CASE("EdgeMoE's list begins with the expert that suffers least at 2 bits") {
  WidthProblem problem{{{"a", {{4, 40, 0.01}, {2, 20, 0.3}}},
                        {"b", {{4, 40, 0.02}, {2, 20, 0.1}}},
                        {"c", {{4, 40, 0.03}, {2, 20, 0.2}}}},
                       0.25};
  EdgeMoeList list = edgeMoeList(problem, 4, 2);
  CHECK(list.items == std::vector<uint32_t>{1, 2, 0});
  CHECK(edgeMoeAssignment(problem, list, 0) == WidthAssignment{0, 0, 0});
  CHECK(edgeMoeAssignment(problem, list, 2) == WidthAssignment{0, 1, 1});
}
