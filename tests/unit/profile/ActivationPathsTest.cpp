#include "compiler/profile/ActivationPaths.h"

#include <doctest/doctest.h>

using namespace moec;

static LayerTrace traceOf(uint32_t topK, std::vector<uint16_t> experts) {
  LayerTrace trace;
  trace.topK = topK;
  trace.experts = std::move(experts);
  return trace;
}

TEST_CASE("paths count the tokens that took an expert after two others") {
  // Two tokens take 4 after 1 and 2, one takes 5 after them, one takes 4 after 3 and 2.
  LayerTrace two = traceOf(1, {1, 1, 1, 3}), one = traceOf(1, {2, 2, 2, 2});
  LayerTrace last = traceOf(1, {4, 5, 4, 4});
  CHECK(activationPaths(two, one, last, 1) ==
        std::vector<ActivationPath>{{1, 2, 4, 2}, {1, 2, 5, 1}, {3, 2, 4, 1}});
}

TEST_CASE("only the best ranks of the earlier layers make paths, and all of the last one") {
  LayerTrace two = traceOf(2, {7, 1}), one = traceOf(2, {2, 0}), last = traceOf(2, {9, 3});
  CHECK(activationPaths(two, one, last, 1) ==
        std::vector<ActivationPath>{{7, 2, 3, 1}, {7, 2, 9, 1}});
  CHECK(activationPaths(two, one, last, 5).size() == 8);
}
