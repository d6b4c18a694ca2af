#include "runtime/generation/RunProfile.h"

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
    {10, 1, 4096, 3, 1, 1, 4, 1, 2, 3072}, {20, 2, 0, 4, 0}, {5, 0, 0, 0, 0}};

TEST_CASE("a profile is written as docs/run-profile.md describes") {
  RunProfile profile(2, 2);
  PartNumbers partNs{};
  partNs[size_t(StepPart::kExperts)] = 30;
  partNs[size_t(StepPart::kChecksums)] = 5;
  profile.record({RunPhase::kPrefill, 0, 7, 100, partNs}, kLayers);
  profile.record({RunPhase::kDecode, 7, 1, 50, {}}, kLayers);
  RunFacts facts;
  facts.artifact = "a.moe";
  facts.plan = "25% fate";
  facts.preset = "fate";
  facts.io = "threads";
  facts.isa = "avx2";
  facts.threads = 2;
  facts.end = "length";
  facts.promptTokens = 7;
  facts.kvBytesPerToken = 96;
  facts.partWeightBytes[size_t(StepPart::kHead)] = 640;
  facts.budgets = {{3, 20, 19, "10%", "more room", 7}};
  std::string columns = R"("compute_ns":[10,20,5],"wait_ns":[1,2,0],"bytes_read":[4096,0,0],)"
                        R"("hits":[3,4,0],"misses":[1,0,0],"ready":[4,0,0],"stalled":[1,0,0],)"
                        R"("useful":[1,0,0],"cancelled":[2,0,0],"prefetch_bytes":[3072,0,0]})";
  CHECK(
      written(profile, facts) ==
      R"({"version":1,"artifact":"a.moe","plan":"25% fate","preset":"fate","io":"threads","isa":"avx2","threads":2,)"
      R"("prefill_chunk_tokens":0,"context_tokens":0,"prompt_tokens":7,"generated_tokens":0,)"
      R"("end":"length","budget_bytes":0,"accounted_bytes":0,"peak_memory_bytes":0,"budget_changes":[{"first_token":3,)"
      R"("budget_bytes":20,"accounted_bytes":19,"plan":"10%","reason":"more room","wall_ns":7}],)"
      R"("layers":2,)"
      R"("parts":["embedding","norms","quantizing","attention_products","attention","router","dense",)"
      R"("experts","prefetches","sums","head","requests","checksums"],)"
      R"("part_weight_bytes":[0,0,0,0,0,0,0,0,0,0,640,0,0],"kv_bytes_per_token":96,)"
      "\"steps\":[\n"
      R"({"phase":"prefill","first_token":0,"tokens":7,"wall_ns":100,)"
      R"("part_ns":[0,0,0,0,0,0,0,30,0,0,0,0,5],)" +
          columns + "\n," + R"({"phase":"decode","first_token":7,"tokens":1,"wall_ns":50,)" +
          R"("part_ns":[0,0,0,0,0,0,0,0,0,0,0,0,0],)" + columns + "]}\n");
}

TEST_CASE("steps beyond the room are dropped") {
  RunProfile profile(1, 2);
  profile.record({}, kLayers);
  profile.record({}, kLayers);
  CHECK(profile.stepCount() == 1);
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
