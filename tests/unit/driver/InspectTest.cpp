#include "compiler/driver/Inspect.h"

#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sstream>

using namespace moec;
using namespace moert;

TEST_CASE("the page for people says what the artifact consists of") {
  std::string text = describeArtifact(tinyArtifact(), "tiny.moe");
  for (const char *line : {
           "tiny.moe: 128 KiB, .moe v1.2\n",
           "model: tiny\n",
           "  2 layers, 2 with routed experts; hidden size 32\n",
           "  BOS 1, EOS 2, 3\n",
           "  int8/32         5     4608        11.17  6.28 KiB\n",
           "       0        4     32 x 24  int4/32                            18.00              "
           "8.00 KiB\n",
           "       1        4     32 x 24  bits 8: 1, 4: 1, 3: 1, 2: 1        36.78  12.0 KiB to "
           "20.0 KiB\n",
           "plans, in pages of 4.00 KiB:\n",
           "  default      none      128       16   116 KiB     29           5    8 to 16\n",
           "  1MiB     1.00 MiB       64        4  28.0 KiB      7           5     0 to 2\n",
           "  decode             47       17         2.06 KiB\n",
           "  compiler  moec test\n",
       })
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, "\n", text);
}

TEST_CASE("the page for people fits into 100 columns and its lines end without spaces") {
  std::istringstream text(describeArtifact(tinyArtifact(), "tiny.moe"));
  for (std::string line; std::getline(text, line);) {
    CHECK_MESSAGE(line.size() <= 100, line);
    CHECK_MESSAGE((line.empty() || line.back() != ' '), line);
  }
}

TEST_CASE("layers that are alike share a line") {
  Artifact artifact = tinyArtifact();
  artifact.moeLayers[1].experts = artifact.moeLayers[0].experts;
  CHECK(describeArtifact(artifact, "tiny.moe").find("\n     0-1        4     32 x 24  int4/32") !=
        std::string::npos);
}

TEST_CASE("experts of several widths in a layer are counted") {
  Artifact artifact = tinyArtifact();
  artifact.moeLayers[0].experts[1].slices[0].format = {WeightKind::kInt8, 32, 32, false};
  std::string text = describeArtifact(artifact, "tiny.moe");
  CHECK_MESSAGE(text.find("bits 8: 1, 4: 3") != std::string::npos, text);
}

TEST_CASE("an expert in bit planes is named by its width and its planes") {
  Artifact artifact = tinyArtifact();
  std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  experts.assign(experts.size(), experts[2]);
  std::string text = describeArtifact(artifact, "tiny.moe");
  CHECK_MESSAGE(text.find("int4/32+offsets as 2+2") != std::string::npos, text);
}

TEST_CASE("an artifact without experts, tokenizer or end tokens is described too") {
  Artifact artifact = tinyArtifact();
  artifact.moeLayers.clear();
  artifact.model.bosToken.reset();
  artifact.model.eosTokens.clear();
  artifact.tokenizerBytes = artifact.recordsBytes = 0;
  for (Plan &plan : artifact.plans)
    plan.quotaPages.clear();
  std::string text = describeArtifact(artifact, "tiny.moe");
  CHECK(text.find("no BOS, no EOS") != std::string::npos);
  CHECK(text.find("experts:") == std::string::npos);
  CHECK(text.find("tokenizer") == std::string::npos);
}

TEST_CASE("bits per weight count the full precision, scales included") {
  Artifact artifact = tinyArtifact();
  const MoeLayer &nested = artifact.moeLayers[1];
  uint64_t bytes = 0;
  for (const Slice &slice : nested.experts[0].slices)
    bytes += slice.payloadBytes;
  CHECK(bitsPerWeight(nested, nested.experts[0]) ==
        doctest::Approx(double(bytes) * 8 / (3 * 32 * 24)));
}

TEST_CASE("the JSON is one object that says the same") {
  Artifact artifact = tinyArtifact();
  std::string text = artifactAsJson(artifact, "a \"quoted\" name.moe");
  CHECK(text.back() == '\n');
  auto json = nlohmann::json::parse(text);
  CHECK(json["file"] == "a \"quoted\" name.moe");
  CHECK(json["file_bytes"] == artifact.fileBytes);
  CHECK(json["model"]["vocabulary_size"] == 48);
  CHECK(json["model"]["eos_tokens"] == std::vector<int>{2, 3});
  CHECK(json["sections"][0]["name"] == "resident");
  CHECK(json["sections"][0]["offset"] == 4096);
  CHECK(json["residents"].size() == 10);
  CHECK(json["residents"][2]["file_offset"] ==
        artifact.residentOffset + artifact.residents[2].offset);
  REQUIRE(json["experts"].size() == 8);
  CHECK(json["experts"][6]["layer"] == 1);
  CHECK(json["experts"][6]["expert"] == 2);
  CHECK(json["experts"][6]["file_offset"] == artifact.moeLayers[1].experts[2].fileOffset);
  CHECK(json["experts"][6]["slices"][0]["refines"] == false);
  CHECK(json["experts"][6]["slices"][1]["format"] == "int2/32");
  CHECK(json["experts"][6]["slices"][1]["refines"] == true);
  CHECK(json["experts"][6]["variants"] == std::vector<std::vector<int>>{{0, 1}, {0}});
  CHECK(json["expert_payload_bytes"] == expertPayloadBytes(artifact));
  CHECK(json["plans"][1]["quota_pages"] == artifact.plans[1].quotaPages);
  CHECK(json["programs"][0]["instructions"] == 47);
  CHECK(json["provenance"]["bits"] == "4");
}
