#include "compiler/planning/LearnedSections.h"

#include "compiler/profile/PathSection.h"
#include "compiler/profile/SeenText.h"
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
  auto learned = learn(**profile, 0, std::nullopt);
  REQUIRE(learned.isOk());
  // Three windows, all in the trace; the middle one is held out for forecasts.
  const uint64_t tokens = (*profile)->info().windowTokens;
  const TokenRange heldOut{tokens, 2 * tokens};
  CHECK(learned->sections.paths == *makePathSection(**profile, {&heldOut, 1}));
  CHECK(learned->sections.paths != *makePathSection(**profile));
}

TEST_CASE("the trace keeps what calibration has read and what else was, unless that is not known") {
  const std::vector<std::byte> file = tinyProfile();
  const moert::MemorySource source("tiny", file);
  auto profile = CalibrationProfile::open(source);
  REQUIRE(profile.isOk());
  const CalibrationInfo &info = (*profile)->info();
  SeenText seen;
  seen.add(info.tokens, info.windowTokens);
  const std::vector<uint64_t> searched = {5, 9};
  seen.add(searched);
  auto learned = learn(**profile, 0, searched);
  REQUIRE(learned.isOk());
  CHECK(learned->trace.readRuns == seen.runs());
  auto unknown = learn(**profile, 0, std::nullopt);
  REQUIRE(unknown.isOk());
  CHECK_FALSE(unknown->trace.readRuns);
}

TEST_CASE("runs of 16 tokens are seen wherever a window begins, also through their hashes") {
  std::vector<int32_t> tokens(64);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(i * i);
  SeenText seen, copy;
  seen.add(tokens, 32); // Two windows; no run crosses from one to the other.
  CHECK(seen.runs().size() == 2 * (32 - SeenText::kRun + 1));
  copy.add(seen.runs());
  const std::span<const int32_t> all = tokens;
  for (const SeenText &each : {seen, copy}) {
    CHECK(each.contains(all.subspan(3, 20)));
    CHECK_FALSE(each.contains(all.subspan(3, 15)));
    CHECK_FALSE(each.contains(all.subspan(20, 20)));
  }
}
