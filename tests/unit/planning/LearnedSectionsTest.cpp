#include "compiler/planning/LearnedSections.h"

#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/planning/TinyPlanning.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

TEST_CASE("a trace with as many experts per token as the artifact's routers choose is read") {
  auto trace = readTraceOf(tinyArtifact(), encodeTrace(smallTrace()));
  REQUIRE_MESSAGE(trace.isOk(), trace.status().message());
  CHECK(trace->layers[1].chosen == smallTrace().layers[1].chosen);
}

TEST_CASE("a trace of another routing is refused") {
  PlanTrace other = smallTrace();
  other.layers[1].topK = 1;
  other.layers[1].chosen.resize(other.tokens());
  CHECK(readTraceOf(tinyArtifact(), encodeTrace(other)).status().message() ==
        "the trace has 1 experts per token in MoE layer 1, expected 2, as many as its router "
        "chooses");
}
