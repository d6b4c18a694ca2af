#include "compiler/plan/RoutingTrace.h"

#include <doctest/doctest.h>

using namespace moec;

using Experts = std::vector<uint32_t>;

static Experts toVector(std::span<const uint32_t> values) {
  return {values.begin(), values.end()};
}

TEST_CASE("a chunk wants the distinct experts of its tokens, the most popular first") {
  // Three tokens of two layers, two and one experts a token.
  std::vector<uint16_t> first{4, 2, /**/ 2, 0, /**/ 0, 2}, second{1, 1, 0};
  std::vector<LayerRoutes> layers{{5, 2, first}, {2, 1, second}};
  std::vector<TraceStep> steps{{3, true}};
  RoutingTrace trace = makeTrace(layers, steps).value();
  REQUIRE(trace.passes.size() == 2);
  moert::PassDemand demand = trace.demandOf(trace.passes[0]);
  CHECK(toVector(demand.wanted) == Experts{2, 0, 4});
  CHECK(toVector(demand.uses) == Experts{3, 2, 1});
  CHECK(demand.tokens == 3);
  demand = trace.demandOf(trace.passes[1]);
  CHECK(toVector(demand.wanted) == Experts{1, 0});
  CHECK(toVector(demand.uses) == Experts{2, 1});
}

TEST_CASE("steps are executed one after the other, each layer by layer; the first pass begins the "
          "prompt") {
  std::vector<uint16_t> first{1, 0}, second{0, 1};
  std::vector<LayerRoutes> layers{{2, 1, first}, {2, 1, second}};
  RoutingTrace trace = makeTrace(layers, std::vector<TraceStep>{{1, true}, {1, false}}).value();
  CHECK(trace.wanted == Experts{1, 0, 0, 1});
  Experts order, begins;
  for (const RoutingPass &pass : trace.passes) {
    order.push_back(pass.layer);
    begins.push_back(pass.beginsPrompt);
  }
  CHECK(order == Experts{0, 1, 0, 1});
  CHECK(begins == Experts{1, 0, 0, 0});
}

TEST_CASE("a window's prompt comes in chunks and the rest token by token") {
  std::vector<TraceStep> steps = stepsOfWindows(2, 9, 5, 3);
  Experts tokens, begins;
  for (const TraceStep &step : steps) {
    tokens.push_back(step.tokens);
    begins.push_back(step.beginsPrompt);
  }
  CHECK(tokens == Experts{3, 2, 1, 1, 1, 1, 3, 2, 1, 1, 1, 1});
  CHECK(begins == Experts{1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0});
  CHECK(stepsOfWindows(1, 4, 0, 3).size() == 4);
  CHECK(stepsOfWindows(1, 4, 9, 3).size() == 2);
}

TEST_CASE("traces that contradict themselves are refused") {
  std::vector<uint16_t> chosen{1, 0};
  auto refusal = [&](LayerRoutes layer, std::vector<TraceStep> steps) {
    return makeTrace(std::span(&layer, 1), steps).status().message();
  };
  CHECK(refusal({2, 1, chosen}, {{2, true}}) == "");
  CHECK(
      refusal({2, 1, chosen}, {{3, true}}) ==
      "MoE layer 0 of the trace has 2 choices, 1 a token of 2 experts, expected those of 3 tokens");
  CHECK(refusal({1, 2, chosen}, {{1, true}}) != "");
  CHECK(refusal({1, 1, chosen}, {{2, true}}) ==
        "MoE layer 0 of the trace chose expert 1, it has 1");
  CHECK(refusal({2, 1, chosen}, {{0, true}, {2, false}}) == "a step of the trace has no tokens");
}
