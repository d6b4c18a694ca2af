// The description of an artifact's plans.
#include "compiler/inspection/Inspect.h"
#include "compiler/inspection/InspectSections.h"

#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <sstream>

using namespace moec;
using namespace moert;

TEST_CASE("the page lists each plan's decisions, with equal layers joined, and the reasons") {
  Artifact artifact = tinyPlannedArtifact();
  std::string text = describeArtifact(artifact, "tiny.moe");
  for (const char *part : {
           "\nplan default:\n"
           "  preset    auto\n"
           "  eviction  lfu, layer quotas; a new prompt keeps contents\n"
           "  quotas    layer 0: 8 pages; 1: 16 pages\n"
           "  pinned    layer 0: experts 1, 3; 1: expert 0\n"
           "  start     layer 0: 2 experts; 1: 1 expert, with their uses in 8 tokens\n"
           "  misses    lower: ranks whose better ones have more than 0.500 of the weight\n"
           "            are computed with 2 slices, with more than 0.750 left out\n"
           "  loss      perplexity 1.25%, at most 1.88% with 95.00% confidence, KL 0.0156\n"
           "            nats, top-1 agreement 93.8%; decoding 62 windows of 8 tokens, 60\n"
           "            units, with this plan's cache\n"
           "  prefetch  layer 0: none; 1: gate, 1 ahead, 2 of 3 likeliest of 6.2% or more\n"
           "\n"
           "  measured  eviction = some: It reads 1.5% less than lru.\n"
           "  stated    prefetches = 1 ahead: The disk idles for 40% of a token.\n",
           "  eviction  arc, one pool; a new prompt keeps pins\n"
           "  quotas    none, 2 pages for all layers\n",
           "  pinned    layer 0: expert 0; 1: none\n",
           "  prefetch  layer 0: none; 1: paths, 1 ahead, 1 of 4 likeliest\n",
       })
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, "\n", text);
}

TEST_CASE("every miss rule is described, and the weights of the weighted eviction") {
  Artifact artifact = tinyPlannedArtifact();
  Plan &plan = artifact.plans[0];
  const uint32_t quarter = kFixedPointOne / 4;
  const std::pair<MissRule, const char *> kRules[] = {
      {{.action = MissAction::kSkip, .waitUpTo = quarter}, "  misses    skip: ranks whose better"},
      {{.action = MissAction::kSubstitute, .substituteWithin = quarter},
       "are replaced by a resident expert at most 0.250 less likely\n"},
      {{.action = MissAction::kLowerPrompts, .waitUpTo = quarter},
       "  misses    prompts: experts of a chunk, but for the 0.250 that most"},
      {{.action = MissAction::kMask}, "  misses    mask: only resident experts take part\n"}};
  for (const auto &described : kRules) {
    plan.miss = described.first;
    const std::string text = describeArtifact(artifact, "tiny.moe");
    CHECK_MESSAGE(text.find(described.second) != std::string::npos, described.second, "\n", text);
  }
  plan.rules.eviction = EvictionPolicy::kWeighted;
  plan.rules.weights = {2 * quarter, quarter, 0, quarter};
  CHECK(describeArtifact(artifact, "tiny.moe")
            .find("  eviction  weighted (recency 0.500, frequency 0.250, full frequency 0.000,") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(artifactAsJson(artifact, "tiny.moe"));
  CHECK(json["plans"][0]["eviction_weights"]["nearness"] == 0.25);
}

TEST_CASE("exchanges are described, with the norms of experts in JSON") {
  Artifact artifact = tinyPlannedArtifact();
  Plan &plan = artifact.plans[0];
  plan.rules = {.eviction = EvictionPolicy::kImportance, .exchange = {4, 2, 5}};
  plan.expertNorms = {{kFixedPointOne, kFixedPointOne / 2, 0, 1}, {}};
  const std::string text = describeArtifact(artifact, "tiny.moe");
  CHECK_MESSAGE(text.find("  exchanges one expert of each layer in 4 tokens, which takes part 2 "
                          "later;") != std::string::npos,
                text);
  const auto json = nlohmann::json::parse(artifactAsJson(artifact, "tiny.moe"));
  CHECK(json["plans"][0]["exchange"]["every_tokens"] == 4);
  CHECK(json["plans"][0]["exchange"]["after_tokens"] == 2);
  CHECK(json["plans"][0]["exchange"]["fade_shift"] == 5);
  CHECK(json["plans"][0]["expert_norms"][0][1] == 0.5);
  CHECK_FALSE(json["plans"][1].contains("exchange"));
}

TEST_CASE("a setting that is the same for all layers appears once") {
  Artifact artifact = tinyPlannedArtifact();
  Plan &plan = artifact.plans[0];
  plan.quotaPages = {8, 8};
  plan.prefetches[0] = plan.prefetches[1];
  plan.pinned.clear();
  plan.start.clear();
  std::string text = describeArtifact(artifact, "tiny.moe");
  for (const char *line :
       {"  quotas    8 pages for each layer\n", "  pinned    none\n", "  start     empty\n",
        "  prefetch  gate, 1 ahead, 2 of 3 likeliest of 6.2% or more\n"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, "\n", text);
}

TEST_CASE("a start may lack the uses of its experts") {
  Artifact artifact = tinyPlannedArtifact();
  artifact.plans[0].start[0].uses = {0, 0};
  artifact.plans[0].start[1].uses = {0};
  artifact.plans[0].startTokens = 1;
  std::string text = describeArtifact(artifact, "tiny.moe");
  CHECK(text.find("  start     layer 0: 2 experts; 1: 1 expert, without recorded uses\n") !=
        std::string::npos);
  artifact.plans[0].start[1].uses = {1};
  text = describeArtifact(artifact, "tiny.moe");
  CHECK(text.find("1: 1 expert, with their uses in 1 token\n") != std::string::npos);
}

TEST_CASE("a range of layers is named by its ends") {
  Artifact artifact = tinyPlannedArtifact();
  artifact.moeLayers.push_back(artifact.moeLayers[1]);
  artifact.moeLayers[2].layer = 2;
  artifact.plans.resize(1);
  Plan &plan = artifact.plans[0];
  plan.quotaPages = {8, 16, 16};
  plan.prefetches.clear();
  plan.pinned = {{1}, {1}, {2}};
  plan.start.clear();
  std::string text = describeArtifact(artifact, "tiny.moe");
  for (const char *line : {"  quotas    layer 0: 8 pages; 1-2: 16 pages\n",
                           "  pinned    layers 0-1: expert 1; 2: expert 2\n", "  prefetch  none\n"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, "\n", text);
}

TEST_CASE("forecasts for one device share their tables, which show which plans prefetch") {
  Artifact artifact = tinyPlannedArtifact();
  for (PrefetchRule &rule : artifact.plans[1].prefetches)
    rule = {};
  std::string text = describeArtifact(artifact, "tiny.moe");
  CHECK_MESSAGE(
      text.find("\nforecast, decoding the calibration text on\n"
                "  laptop\n"
                "  4 threads; the device's numbers are assumed at worst\n"
                "  4096 of the trace's 12288 decoded tokens, held out from planning:\n"
                "  ms per token  mean  median   95%  bound\n"
                "  default       1.50    1.25  4.00   1.00\n"
                "  1MiB          1.50    1.25  4.00   1.00\n"
                "\n"
                "  reads per token   hits  resident      read    Belady  recall  precision\n"
                "  default          75.0%     87.5%  64.0 KiB  32.0 KiB   50.0%      62.5%\n"
                "  1MiB             75.0%     87.5%  64.0 KiB  32.0 KiB       -          -\n") !=
          std::string::npos,
      text);
}

TEST_CASE("forecasts for different devices do not, and without forecasts there is no table") {
  Artifact artifact = tinyPlannedArtifact();
  artifact.plans[1].forecast->device = "phone";
  std::string text = describeArtifact(artifact, "tiny.moe");
  CHECK(text.find("  laptop\n") < text.find("  phone\n"));
  CHECK(text.find("  phone\n") != std::string::npos);
  CHECK(describeArtifact(tinyArtifact(), "tiny.moe").find("forecast") == std::string::npos);
}

TEST_CASE("the description of plans ends with a whole line, and a blank one follows forecasts") {
  const Artifact planned = tinyPlannedArtifact();
  for (const Artifact &artifact : {planned, tinyArtifact()}) {
    const std::string plans = describePlans(artifact);
    CHECK(plans.ends_with("\n"));
    CHECK_FALSE(plans.ends_with("\n\n"));
  }
  CHECK(describePlans(planned).ends_with("tokens\n"));
  CHECK(describeArtifact(planned, "tiny.moe").find("tokens\n\nprograms:\n") != std::string::npos);
}

TEST_CASE("long reasons and lists are wrapped") {
  Artifact artifact = tinyPlannedArtifact();
  for (int i = 0; i < 30; ++i)
    artifact.plans[0].reasons[0].reason += " and more";
  artifact.plans[0].pinned[0].resize(60, 3);
  std::istringstream text(describeArtifact(artifact, "tiny.moe"));
  size_t continued = 0;
  for (std::string line; std::getline(text, line);) {
    CHECK_MESSAGE(line.size() <= 80, line);
    CHECK_MESSAGE((line.empty() || line.back() != ' '), line);
    continued += line.starts_with("            and ") || line.starts_with("            3, ");
  }
  CHECK(continued >= 4);
}

TEST_CASE("a plan without decisions of its own is only a line of the table") {
  CHECK(describeArtifact(tinyArtifact(), "tiny.moe").find("\nplan ") == std::string::npos);
}

TEST_CASE("sections of trace and activation paths are listed") {
  Artifact artifact = tinyPlannedArtifact();
  std::string text = describeArtifact(artifact, "tiny.moe");
  CHECK(text.find("\n  trace ") != std::string::npos);
  CHECK(text.find("\n  activation paths ") != std::string::npos);
  auto json = nlohmann::json::parse(artifactAsJson(artifact, "tiny.moe"));
  std::map<std::string, uint64_t> bytes;
  for (const auto &section : json["sections"])
    bytes[section["name"]] = section["bytes"];
  CHECK(bytes["trace"] == artifact.traceBytes);
  CHECK(bytes["paths"] == artifact.pathsBytes);
}

TEST_CASE("the JSON has all decisions of a plan") {
  auto plans = nlohmann::json::parse(artifactAsJson(tinyPlannedArtifact(), "tiny.moe"))["plans"];
  auto plan = plans[0];
  CHECK(plan["preset"] == "auto");
  CHECK(plan["eviction"] == "lfu");
  CHECK(plan["sharing"] == "layer quotas");
  CHECK(plan["survival"] == "contents");
  CHECK(plan["pinned"] == std::vector<std::vector<int>>{{1, 3}, {0}});
  CHECK(plan["start"][0]["experts"] == std::vector<int>{0, 2});
  CHECK(plan["start"][0]["uses"] == std::vector<int>{5, 0});
  CHECK(plan["start_tokens"] == 8);
  CHECK(plan["prefetches"][0]["predictor"] == "none");
  CHECK(plan["prefetches"][1]["predictor"] == "gate");
  CHECK(plan["prefetches"][1]["ahead"] == 1);
  CHECK(plan["prefetches"][1]["candidates"] == 3);
  CHECK(plan["prefetches"][1]["reads"] == 2);
  CHECK(plan["prefetches"][1]["min_probability"] == 0.0625);
  CHECK(plan["reasons"][0]["decision"] == "eviction");
  CHECK(plan["reasons"][0]["value"] == "some");
  CHECK(plan["reasons"][0]["reason"] == "It reads 1.5% less than lru.");
  CHECK(plan["reasons"][0]["origin"] == "measured");
  CHECK(plans[1]["sharing"] == "one pool");
  CHECK(plans[1]["survival"] == "pins");
  CHECK(plan["miss"]["action"] == "lower");
  CHECK(plan["miss"]["low_slices"] == 2);
  CHECK(plan["miss"]["wait_up_to"] == 0.5);
  CHECK(plan["miss"]["skip_beyond"] == 0.75);
  CHECK(plans[1]["miss"]["action"] == "wait");
  CHECK(plan["loss"]["upper_bound"] == 0.01875);
  CHECK(plan["loss"]["texts"][0]["name"] == "one.jsonl");
  CHECK_FALSE(plans[1].contains("loss"));
}

TEST_CASE("the JSON has the forecast, if there is one") {
  auto planned = nlohmann::json::parse(artifactAsJson(tinyPlannedArtifact(), "tiny.moe"));
  auto forecast = planned["plans"][0]["forecast"];
  CHECK(forecast["device"] == "laptop");
  CHECK(forecast["threads"] == 4);
  CHECK(forecast["tokens"] == 4096);
  CHECK(forecast["token_ns"] == 1.5e6);
  CHECK(forecast["median_ns"] == 1.25e6);
  CHECK(forecast["slow_ns"] == 4e6);
  CHECK(forecast["hit_rate"] == 0.75);
  CHECK(forecast["ready_rate"] == 0.875);
  CHECK(forecast["bytes_read_per_token"] == 65536.5);
  CHECK(forecast["prefetch_recall"] == 0.5);
  CHECK(forecast["prefetch_precision"] == 0.625);
  CHECK(forecast["least_bytes_per_token"] == 32768);
  CHECK(forecast["bound_ns"] == 1e6);
  CHECK(forecast["origin"] == "assumed");
  auto plain = nlohmann::json::parse(artifactAsJson(tinyArtifact(), "tiny.moe"));
  CHECK_FALSE(plain["plans"][0].contains("forecast"));
}
