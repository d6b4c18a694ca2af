#include "compiler/planning/LearnedSections.h"

#include "compiler/profile/PathSection.h"
#include "runtime/format/Reader.h"
#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/planning/TinyPlanning.h"
#include "tests/unit/profile/TinyProfile.h"

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

TEST_CASE("the activation-path table does not count the tokens that plans are forecast on") {
  const std::vector<std::byte> file = tinyProfile();
  const moert::MemorySource source("tiny", file);
  auto profile = CalibrationProfile::open(source);
  REQUIRE(profile.isOk());
  auto learned = learn(**profile, 0);
  REQUIRE(learned.isOk());
  // Three windows, all in the trace; the middle one is held out for forecasts.
  const uint64_t tokens = (*profile)->info().windowTokens;
  const TokenRange heldOut{tokens, 2 * tokens};
  CHECK(learned->sections.paths == *makePathSection(**profile, {&heldOut, 1}));
  CHECK(learned->sections.paths != *makePathSection(**profile));
}
