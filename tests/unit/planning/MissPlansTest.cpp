// Miss rules as text, and requests for plans with them. tests/e2e/test_misses.py measures them.
#include "compiler/planning/MissPlans.h"

#include <doctest/doctest.h>
#include <random>

using namespace moec;
using namespace moert;

TEST_CASE("every rule is read as it is written, to the last bit") {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    MissRule rule;
    rule.action = static_cast<MissAction>(random() % kNames<MissAction>.size());
    if (rule.isLossy() && rule.action != MissAction::kMask)
      rule.waitUpTo = random() % (kFixedPointOne + 1);
    if (rule.action == MissAction::kLower) {
      rule.skipBeyond = rule.waitUpTo + random() % (kFixedPointOne + 1 - rule.waitUpTo);
      rule.lowSlices = static_cast<uint8_t>(1 + random() % 3);
    }
    if (rule.changesPrompts())
      rule.lowSlices = static_cast<uint8_t>(1 + random() % 3);
    if (rule.action == MissAction::kSubstitute)
      rule.substituteWithin = random() % (kFixedPointOne + 1);
    const std::string text = missRuleText(rule);
    CAPTURE(text);
    const Result<MissRule> read = parseMissRule(text);
    REQUIRE(read.isOk());
    CHECK(*read == rule);
  }
}

TEST_CASE("any other text is refused with the forms that there are") {
  for (const char *text : {"",
                           "hope",
                           "lower",
                           "lower:0.5",
                           "lower:0.9:0.5",
                           "lower:0:1:0",
                           "lower:0:1:256",
                           "lower:0:1:x",
                           "skip",
                           "skip:",
                           "skip:2",
                           "skip:-1",
                           "skip:nan",
                           "skip:0.5x",
                           "skip:0.5:1",
                           "mask:1",
                           "prompts",
                           "prompts:0.5:0",
                           "prompts:2",
                           "wait:0",
                           "substitute:0.5",
                           "Mask"}) {
    CAPTURE(text);
    const Status refused = parseMissRule(text).status();
    CHECK(refused.code() == StatusCode::kInvalidInput);
    CHECK(refused.message().find("expected auto alone, or wait, lower:T1:T2") != std::string::npos);
  }
}

TEST_CASE("a request that loses accuracy needs a reference and texts, one that waits does not") {
  MissRequest request;
  const Preset hobbit[] = {Preset::kHobbit}, lru[] = {Preset::kLru};
  CHECK(checkMissRequest(request, lru).isOk());
  CHECK_FALSE(checkMissRequest(request, hobbit).isOk());
  request.rules = {MissRule{}};
  CHECK(checkMissRequest(request, hobbit).isOk()); // Its variant that waits.
  request.target.mean = 0.02;
  CHECK(checkMissRequest(request, lru).message().find("expected --miss RULE") != std::string::npos);
  request.rules = {MissRule{.action = MissAction::kMask}};
  CHECK(checkMissRequest(request, lru).message().find("expected --reference") != std::string::npos);
  request.referencePath = "source.moe";
  CHECK_FALSE(checkMissRequest(request, lru).isOk());
  request.texts.files = {"a.jsonl"};
  CHECK(checkMissRequest(request, lru).isOk());
  // Fate is exact unless it may lose something.
  MissRequest ofFate;
  const Preset fate[] = {Preset::kFate};
  CHECK(checkMissRequest(ofFate, fate).isOk());
  ofFate.target.quantile = {0.9, 0.03};
  CHECK(checkMissRequest(ofFate, fate).message().find("expected --reference") != std::string::npos);
  request.texts.metric = LossMetric::kChoice;
  CHECK(checkMissRequest(request, lru).message().find("is measured on items") != std::string::npos);
}

TEST_CASE("profiling texts are for swapmoe, need a reference, and are not those of the loss") {
  MissRequest request;
  request.profileFiles = {"p.jsonl"};
  const Preset lru[] = {Preset::kLru}, swapmoe[] = {Preset::kSwapMoe};
  CHECK(checkMissRequest(request, lru).message().find("expected --preset swapmoe") !=
        std::string::npos);
  CHECK(checkMissRequest(request, swapmoe).message().find("expected --reference REF.moe") !=
        std::string::npos);
  request.referencePath = "source.moe";
  request.texts.files = {"a.jsonl", "p.jsonl"};
  CHECK(checkMissRequest(request, swapmoe).message().find("expected another one") !=
        std::string::npos);
  request.texts.files = {"a.jsonl"};
  CHECK(checkMissRequest(request, swapmoe).isOk());
  request.rules = {MissRule{}};
  CHECK(checkMissRequest(request, swapmoe).message().find("which --miss wait does not use") !=
        std::string::npos);
}
