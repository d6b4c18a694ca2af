#include "runtime/serving/RunProfile.h"

#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

using namespace moert;

static std::string written(const RunProfile &profile, const RunFacts &facts) {
  TemporaryDirectory folder;
  std::string path = folder.path("run.json");
  auto file = OutputFile::create(path);
  REQUIRE(file.isOk());
  REQUIRE(profile.write(*file, facts).isOk());
  REQUIRE(file->commit().isOk());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

static const std::vector<LayerProfile> kLayers = {
    {10, 1, 4096, 3, 1, 0, 0, 1, 4, 1, 2, 3072, 2, 1, 0},
    {20, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3},
    {5, 0, 0, 0, 0}};

TEST_CASE("a profile is written as docs/run-profile.md describes") {
  RunProfile profile(2, 2);
  PartNumbers partNs{};
  partNs[size_t(StepPart::kExperts)] = 30;
  partNs[size_t(StepPart::kChecksums)] = 5;
  profile.record({RunPhase::kPrefill, 0, 7, 0, 100, partNs, 8192, {4, 60, 90}}, kLayers);
  profile.record({RunPhase::kDecode, 7, 1, 110, 50, {}, 8192}, kLayers);
  RunFacts facts;
  facts.program = "moert 1";
  facts.artifact = "a.moe";
  facts.weightsChecksum = 0xab;
  facts.promptChecksum = 0xcd;
  facts.promptFile = "p.txt";
  facts.availableBytes = 1 << 20;
  facts.poolPages = 12;
  facts.cores = 4;
  facts.plan = "25% fate";
  facts.preset = "fate";
  facts.io = "threads";
  facts.isa = "avx2";
  facts.threads = 2;
  facts.end = "length";
  facts.options = {{"--temp=0.5", "--stop=\""}};
  facts.promptTokens = 7;
  facts.kvBytesPerToken = 96;
  facts.partWeightBytes[size_t(StepPart::kHead)] = 640;
  facts.budgets = {{3, 20, 19, "10%", "more room", 7}};
  std::string columns =
      R"("compute_ns":[10,20,5],"wait_ns":[1,2,0],"bytes_read":[4096,0,0],)"
      R"("hits":[3,4,0],"misses":[1,0,0],"ready":[4,0,0],"stalled":[1,0,0],)"
      R"("useful":[1,0,0],"cancelled":[2,0,0],"prefetch_bytes":[3072,0,0],)"
      R"("lowered":[2,0,0],"skipped":[1,0,0],"substituted":[0,3,0],"promoted":[0,0,0]})";
  CHECK(
      written(profile, facts) ==
      R"({"version":1,"layers":2,)"
      R"("parts":["embedding","norms","quantizing","attention_products","attention","router","dense",)"
      R"("experts","prefetches","sums","head","requests","checksums"],)"
      R"("program":"moert 1","artifact":"a.moe","weights":"00000000000000ab",)"
      R"("prompt":"00000000000000cd","prompt_file":"p.txt","plan":"25% fate","preset":"fate","io":"threads","isa":"avx2","threads":2,"cores":4,)"
      R"("prefill_chunk_tokens":0,"context_tokens":0,"prompt_tokens":7,"generated_tokens":0,)"
      R"("options":["--temp=0.5","--stop=\""],"end":"length","budget_bytes":0,"accounted_bytes":0,"peak_memory_bytes":0,"available_bytes":1048576,"pool_pages":12,)"
      R"("budget_changes":[{"first_token":3,"budget_bytes":20,"accounted_bytes":19,"plan":"10%","reason":"more room","wall_ns":7}],)"
      R"("part_weight_bytes":[0,0,0,0,0,0,0,0,0,0,640,0,0],"kv_bytes_per_token":96,)"
      R"("totals":{"prefill":{"steps":1,"tokens":7,"wall_ns":100,"reads":4,"reading_ns":60,"under_way_ns":90,"part_ns":[0,0,0,0,0,0,0,30,0,0,0,0,5],)" +
          columns +
          R"(,"decode":{"steps":1,"tokens":1,"wall_ns":50,"reads":0,"reading_ns":0,"under_way_ns":0,"part_ns":[0,0,0,0,0,0,0,0,0,0,0,0,0],)" +
          columns +
          R"(},"routes":{"tokens":0,"chosen":[],"candidates":[]},"kept_every":1,"steps":[)"
          "\n" +
          R"({"phase":"prefill","first_token":0,"tokens":7,"begin_ns":0,"wall_ns":100,"resident_bytes":8192,)"
          R"("reads":4,"reading_ns":60,"under_way_ns":90,"part_ns":[0,0,0,0,0,0,0,30,0,0,0,0,5],)" +
          columns + "\n," +
          R"({"phase":"decode","first_token":7,"tokens":1,"begin_ns":110,"wall_ns":50,"resident_bytes":8192,)" +
          R"("reads":0,"reading_ns":0,"under_way_ns":0,"part_ns":[0,0,0,0,0,0,0,0,0,0,0,0,0],)" +
          columns + "]}\n");
}

TEST_CASE("a long run keeps every second, fourth, ... step and the sums of all") {
  const uint64_t most = kMostProfiledSteps;
  RunProfile profile(3 * most, 2);
  for (uint32_t i = 0; i < 2 * most + 1; ++i)
    profile.record({RunPhase::kDecode, i, 1, 0, 2, {}, 0}, kLayers);
  CHECK(profile.stepCount() == most / 2 + 1);
  const std::string text = written(profile, {});
  CHECK(text.find("\"kept_every\":4,") != std::string::npos);
  CHECK(text.find(R"("first_token":4,)") != std::string::npos);
  CHECK(text.find(R"("first_token":2,)") == std::string::npos);
  CHECK(text.find(strCat(R"("first_token":)", 2 * most)) != std::string::npos);
  CHECK(text.find(strCat(R"("decode":{"steps":)", 2 * most + 1, R"(,"tokens":)", 2 * most + 1,
                         R"(,"wall_ns":)", 4 * most + 2)) != std::string::npos);
}

TEST_CASE("a profile without steps records nothing") {
  RunProfile none(0, 2);
  none.record({}, kLayers);
  CHECK(none.stepCount() == 0);
}

TEST_CASE("totals add up and compute the hit rate") {
  LayerTotals totals;
  CHECK(totals.hitRate() == 1);
  CHECK(totals.stallRate() == 0);
  for (const LayerProfile &layer : kLayers)
    totals.add(layer);
  CHECK(totals.bytesRead == 4096);
  CHECK(totals.waitNs == 3);
  CHECK(totals.hitRate() == doctest::Approx(7.0 / 8));
  CHECK(totals.readyRate() == doctest::Approx(4.0 / 8));
  CHECK(totals.stallRate() == doctest::Approx(1.0 / 8));
  CHECK(totals.prefetches() == 3);
  CHECK(totals.prefetchBytes == 3072);
}
