#include "compiler/report/RunRecord.h"

#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace moec;
using moert::LayerProfile;
using moert::RunPhase;

namespace {

nlohmann::json writtenProfile(const TemporaryDirectory &folder) {
  moert::RunProfile profile(2, 1);
  const std::vector<LayerProfile> layers = {{10, 1, 4096, 3, 1, 0, 0, 1, 4, 1, 2, 3072},
                                            {5, 0, 0, 0, 0}};
  profile.record({RunPhase::kPrefill, 0, 2, 0, 100, {}, 8192}, layers);
  profile.record({RunPhase::kDecode, 2, 1, 110, 50, {}, 8192, {3, 20, 30}}, layers);
  moert::RunFacts facts;
  facts.artifact = "a.moe";
  facts.plan = "25%";
  facts.weightsChecksum = 0xab;
  facts.promptTokens = 2;
  facts.promptFile = "p.txt";
  facts.options = {{"--temp=0.5", "--stop=it's"}};
  facts.budgets.emplace_back();
  facts.budgets[0].firstToken = 2;
  facts.budgets[0].budgetBytes = 4096;
  auto file = moert::OutputFile::create(folder.path("run.json"));
  REQUIRE(file.isOk());
  REQUIRE(profile.write(*file, facts).isOk());
  REQUIRE(file->commit().isOk());
  return nlohmann::json::parse(std::ifstream(folder.path("run.json")));
}

/// The message about a profile after a change.
template <typename Change> std::string refusal(const Change &change) {
  TemporaryDirectory folder;
  nlohmann::json profile = writtenProfile(folder);
  change(profile);
  folder.write("run.json", profile.dump());
  auto read = readRunRecord(folder.path("run.json"));
  if (read.isOk())
    return "";
  CHECK(read.status().code() == moert::StatusCode::kInvalidInput);
  CHECK(read.status().message().starts_with(folder.path("run.json")));
  return read.status().message();
}

bool has(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a profile without the times of reads is one of an older program") {
  TemporaryDirectory folder;
  nlohmann::json profile = writtenProfile(folder);
  profile["totals"]["decode"].erase("reads");
  for (nlohmann::json &step : profile["steps"])
    step.erase("reads");
  folder.write("run.json", profile.dump());
  auto read = readRunRecord(folder.path("run.json"));
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(read->decode.reads.busyNs == 0);
  CHECK(has(refusal([](nlohmann::json &each) { each["steps"][1]["reading_ns"] = -1; }),
            "key 'reading_ns': found -1, expected a whole number"));
}

TEST_CASE("a profile without options is one of an older program") {
  TemporaryDirectory folder;
  nlohmann::json profile = writtenProfile(folder);
  profile.erase("options");
  folder.write("run.json", profile.dump());
  auto read = readRunRecord(folder.path("run.json"));
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(!read->facts.options);
  CHECK(has(refusal([](nlohmann::json &each) { each["options"][0] = 7; }),
            "key 'options': found 7, expected a list of texts"));
}

TEST_CASE("a written profile reads back as it was recorded") {
  TemporaryDirectory folder;
  writtenProfile(folder);
  auto read = readRunRecord(folder.path("run.json"));
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(read->facts.weightsChecksum == 0xab);
  CHECK(read->facts.plan == "25%");
  CHECK(read->facts.promptFile == "p.txt");
  CHECK(read->facts.options == std::vector<std::string>{"--temp=0.5", "--stop=it's"});
  CHECK(read->layers == 1);
  REQUIRE(read->facts.budgets.size() == 1);
  CHECK(read->facts.budgets[0].firstToken == 2);
  CHECK(read->facts.budgets[0].budgetBytes == 4096);
  REQUIRE(read->steps.size() == 2);
  CHECK(read->steps[1].step.beginNs == 110);
  CHECK(read->steps[1].step.reads.reads == 3);
  CHECK(read->decode.reads.busyNs == 20);
  CHECK(read->decode.reads.underWayNs == 30);
  CHECK(read->steps[1].step.residentBytes == 8192);
  CHECK(read->steps[1].layers[0].prefetchBytes == 3072);
  CHECK(read->steps[1].computeNs() == 15);
  CHECK(read->decode.wallNs == 50);
  CHECK(read->prefill.tokens == 2);
  CHECK(read->decode.sum().misses == 1);
}

TEST_CASE("what is no profile is refused") {
  TemporaryDirectory folder;
  folder.write("broken.json", "{\"version\": 1, ");
  folder.write("empty.json", "");
  folder.write("list.json", "[1]");
  for (const char *name : {"broken.json", "empty.json", "list.json"}) {
    auto read = readRunRecord(folder.path(name));
    REQUIRE(!read.isOk());
    CHECK(has(read.status().message(), "expected a run profile"));
  }
  CHECK(!readRunRecord(folder.path("missing.json")).isOk());
}

TEST_CASE("a profile of another version or of an older program is refused") {
  CHECK(has(refusal([](auto &profile) { profile["version"] = 2; }),
            "found a run profile of version 2, expected version 1"));
  CHECK(has(refusal([](auto &profile) { profile.erase("routes"); }),
            "found no key 'routes', expected a profile of a current moert"));
}

TEST_CASE("a message about a key has what was found and what is expected") {
  CHECK(has(refusal([](auto &profile) { profile["threads"] = "two"; }),
            "key 'threads': found \"two\", expected a whole number"));
  CHECK(has(refusal([](auto &profile) { profile["weights"] = "ab"; }),
            "key 'weights': found \"ab\", expected 16 hexadecimal digits"));
  CHECK(has(refusal([](auto &profile) {
              profile["steps"][1]["wait_ns"] = {1, 2, 3};
            }),
            "step 1: key 'wait_ns': found [1,2,3], expected a list of 2 numbers"));
  CHECK(has(refusal([](auto &profile) { profile["steps"][0]["phase"] = "pause"; }),
            "expected 'prefill' or 'decode'"));
  CHECK(has(refusal([](auto &profile) { profile["budget_changes"][0]["budget_bytes"] = -1; }),
            "budget_changes: key 'budget_bytes': found -1, expected a whole number"));
  CHECK(has(refusal([](auto &profile) { profile["totals"].erase("decode"); }), "'decode'"));
  CHECK(has(refusal([](auto &profile) { profile["totals"]["decode"]["hits"][0] = -1; }),
            "key 'hits': found -1"));
  CHECK(has(refusal([](auto &profile) { profile["parts"][0] = "lunch"; }), "expected 'embedding'"));
  CHECK(has(refusal([](auto &profile) { profile["layers"] = 4000000000; }),
            "expected a whole number of at most 65536"));
}

TEST_CASE("candidates have to be as many as the tokens that were decoded") {
  const auto withCandidates = [](nlohmann::json &profile, const char *candidates) {
    profile["routes"] = nlohmann::json::parse(
        std::string(R"({"tokens":3,"chosen":[[1,0,1]],"candidates":[)") + candidates + "]}");
  };
  CHECK(refusal([&](auto &profile) {
          withCandidates(profile, R"({"per_token":1,"experts":[2],"probabilities":[5]})");
        }) == "");
  CHECK(has(refusal([&](auto &profile) {
              withCandidates(profile, R"({"per_token":2,"experts":[2],"probabilities":[5]})");
            }),
            "key 'experts': found [2], expected a list of 2 numbers"));
  const auto withDepths = [&](const char *depths) {
    return refusal([&](auto &profile) {
      withCandidates(profile, (std::string(R"({"per_token":1,"depths":)") + depths +
                               R"(,"experts":[2,3],"probabilities":[5,4]})")
                                  .c_str());
    });
  };
  CHECK(withDepths("2") == "");
  CHECK(has(withDepths("1"), "key 'experts': found [2,3], expected a list of 1 numbers"));
  CHECK(has(withDepths("0"), "key 'depths': found 0, expected at least 1"));
  CHECK(has(withDepths("4"), "key 'depths': found 4, expected a whole number of at most 3"));
}
