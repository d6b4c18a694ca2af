#include "compiler/inspection/Inspect.h"

#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sstream>

using namespace moec;
using namespace moert;

TEST_CASE("the page lists the parts of the artifact") {
  std::string text = describeArtifact(tinyArtifact(), "tiny.moe");
  for (const char *line : {
           "tiny.moe: 128 KiB, .moe v2.1\n",
           "model: tiny\n",
           "  2 layers, 2 with routed experts; hidden size 32\n",
           "  BOS 1, EOS 2, 3\n",
           "  int8/32         5     4608        11.17  6.28 KiB\n",
           "  layers  experts  in x width  bits/weight  8b  4b  3b  2b      size\n",
           "       0        4     32 x 24        18.00   -   4   -   -  20.2 KiB\n",
           "       1        4     32 x 24        36.78   1   1   1   1  41.4 KiB\n",
           "  0  4444\n  1  8342\n",
           "  8        8  int8/32+offsets as 2+2+4        1  13120  12.8 KiB     20.8%\n",
           "  4        4  int4/32                         4  20736  20.2 KiB     32.9%\n",
           "  all                                         8  63104  61.6 KiB    100.0%\n",
           "plans, in pages of 4.00 KiB:\n",
           "  default      none      128       16   116 KiB     29        5    8 to 16\n",
           "  1MiB     1.00 MiB       64        4  28.0 KiB      7        5     0 to 2\n",
           "  decode             48       17         2.06 KiB\n",
           "  compiler  moec test\n",
       })
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, "\n", text);
}

TEST_CASE("the page fits into 80 columns and its lines end without spaces") {
  Artifact artifact = tinyArtifact();
  artifact.measured = tinyMeasured();
  for (MoeLayer &layer : artifact.moeLayers) // Enough for two lines, of every width.
    for (size_t e = 0; e < 124; ++e)
      layer.experts.push_back(artifact.moeLayers[1].experts[e % 4]);
  std::istringstream text(describeArtifact(artifact, "tiny.moe"));
  for (std::string line; std::getline(text, line);) {
    CHECK_MESSAGE(line.size() <= 80, line);
    CHECK_MESSAGE((line.empty() || line.back() != ' '), line);
  }
}

TEST_CASE("equal layers share a line") {
  Artifact artifact = tinyArtifact();
  artifact.moeLayers[1].experts = artifact.moeLayers[0].experts;
  CHECK(describeArtifact(artifact, "tiny.moe")
            .find("\n     0-1        4     32 x 24        18.00   4") != std::string::npos);
  CHECK(describeArtifact(artifact, "tiny.moe").find("\n  0-1  4444\n") != std::string::npos);
}

TEST_CASE("experts of several widths in a layer are counted") {
  Artifact artifact = tinyArtifact();
  artifact.moeLayers[0].experts[1].slices[0].format = WeightFormat{WeightKind::kInt8, 32, 32};
  artifact.moeLayers.pop_back();
  std::string text = describeArtifact(artifact, "tiny.moe");
  CHECK_MESSAGE(text.find("bits/weight  8b  4b      size\n       0        4     32 x 24        "
                          "18.00   1   3") != std::string::npos,
                text);
  CHECK_MESSAGE(text.find("\n  0  4844\n") != std::string::npos, text);
}

TEST_CASE("an expert in slices is shown with its width and its slices' widths") {
  std::string text = describeArtifact(tinyArtifact(), "tiny.moe");
  CHECK_MESSAGE(text.find("\n  4        4  int4/32+offsets as 2+2 ") != std::string::npos, text);
}

TEST_CASE("widths whose down differs are drawn as letters, which the legend explains") {
  Artifact artifact = tinyArtifact();
  std::vector<Expert> &experts = artifact.moeLayers[1].experts;
  experts[1].slices[1].format.down.kind = WeightKind::kInt2; // 2+2 beside 2+1 bits.
  experts[2].slices[1].format.down.kind = WeightKind::kInt0; // 2 beside 2+2.
  const std::string text = describeArtifact(artifact, "tiny.moe");
  for (const char *line : {
           "\nexperts, counted by width (4b: 4 bits; 4/6b: gate and up 4, down 6):\n",
           "  layers  experts  in x width  bits/weight  8b  4b  4/2b  3/4b  2b      size\n",
           "       1        4     32 x 24        36.78   1   -     1     1   1  41.4 KiB\n",
           "\n  1  8ba2\n",
           "\n  a      4/2  int4/32+offsets as 2+2          1  ",
           "\n        down  int2/32+offsets\n",
           "\n  b      3/4  int3/32+offsets as 2+1          1  ",
           "\n        down  int4/32+offsets as 2+2\n",
       })
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, "\n", text);
  const auto json = nlohmann::json::parse(artifactAsJson(artifact, "tiny.moe"));
  CHECK(json["widths"][1]["bits"] == std::vector<int>{8, 3, 4, 2});
  CHECK(json["widths"][1]["down_bits"] == std::vector<int>{8, 4, 2, 2});
  CHECK(json["experts"][5]["bits"] == 3);
  CHECK(json["experts"][5]["down_bits"] == 4);
  CHECK_FALSE(json["experts"][5]["slices"][0].contains("down"));
  CHECK(json["experts"][5]["slices"][1]["kind"] == "int1");
  CHECK(json["experts"][5]["slices"][1]["down"]["kind"] == "int2");
  CHECK(json["width_totals"][3]["bits"] == 3);
  CHECK(json["width_totals"][3]["down_bits"] == 4);
  CHECK(json["width_totals"][3]["format"] == "int3/32+offsets as 2+1, down int4/32+offsets as 2+2");
}

// A layer with one expert per cell.
static Artifact drawnArtifact(const std::string &cells) {
  Artifact artifact = tinyArtifact();
  const MoeLayer tiny = artifact.moeLayers[1];
  artifact.moeLayers.resize(1);
  artifact.moeLayers[0].experts.clear();
  for (char cell : cells) {
    Expert expert = tiny.experts[cell == '8' ? 0 : cell == '3' ? 1 : cell == '4' ? 2 : 3];
    if (cell == 'H' || cell == 'F')
      expert.slices[0].format = floatFormat(cell == 'H' ? WeightKind::kBF16 : WeightKind::kF32);
    artifact.moeLayers[0].experts.push_back(expert);
  }
  return artifact;
}

static std::string repeated(const std::string &text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i)
    all += text;
  return all;
}

TEST_CASE("a layer with more experts than fit on a line continues on a line that begins with the "
          "next number") {
  std::string text = describeArtifact(drawnArtifact(repeated("8433", 25)), "drawn.moe");
  std::string group = repeated("8433", 4);
  CHECK_MESSAGE(text.find("\n     0  " + group + " " + group + " " + group + " " + group +
                          "\n   +64  " + group + " " + group + " 8433\n") != std::string::npos,
                text);
}

TEST_CASE("a wide layer of one width is one cell") {
  std::string text = describeArtifact(drawnArtifact(repeated("4", 65)), "drawn.moe");
  CHECK_MESSAGE(text.find("\n    0  4, as are all 65\n") != std::string::npos, text);
}

TEST_CASE("float formats have letters, which the legend explains") {
  std::string text = describeArtifact(drawnArtifact("HF"), "drawn.moe");
  CHECK_MESSAGE(text.find("\n  0  HF\n") != std::string::npos, text);
  CHECK_MESSAGE(text.find("\n  F       32  f32 ") != std::string::npos, text);
  CHECK_MESSAGE(text.find("\n  H       16  bf16 ") != std::string::npos, text);
}

TEST_CASE("colours do not change the text") {
  Artifact artifact = drawnArtifact(repeated("84", 10) + "222");
  std::string text = describeArtifact(artifact, "drawn.moe", true);
  // Three cells of one colour: switched on and off once.
  CHECK_MESSAGE(text.find("\x1b[48;5;53;38;5;15m222\x1b[0m\n") != std::string::npos, text);
  CHECK_MESSAGE(
      text.find("\n  \x1b[48;5;113;38;5;16m8\x1b[0m        8  int8/32") != std::string::npos, text);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\x1b')
      i = text.find('m', i);
    else
      plain += text[i];
  CHECK(plain == describeArtifact(artifact, "drawn.moe", false));
  CHECK(plain.size() < text.size());
}

TEST_CASE("page and JSON have what the artifact holds for conversations, if there is anything") {
  Artifact artifact = tinyArtifact();
  CHECK(describeArtifact(artifact, "tiny.moe").find("conversations") == std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(artifactAsJson(artifact, "tiny.moe")).contains("chat"));
  artifact.chat = tinyChat();
  artifact.chat->specialTokens[1].second = "\x1b[31m";
  artifact.sampling = tinySampling();
  const std::string text = describeArtifact(artifact, "tiny.moe");
  for (const char *line : {
           "conversations:\n",
           "  template default   51 bytes\n",
           "  template tool_use  11 bytes\n",
           "  reasoning          none known\n",
           "  calls of tools     none known\n",
           "  bos_token          <s>\n",
           "  eos_token          \\x1b[31m\n",
           "drawn, temperature 0.5, top-k 20, top-p 0.75, min-p 0.125",
       })
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, "\n", text);
  const auto json = nlohmann::json::parse(artifactAsJson(artifact, "tiny.moe"));
  CHECK(json["chat"]["templates"]["tool_use"] == "{{ tools }}");
  CHECK(json["chat"]["special_tokens"]["bos_token"] == "<s>");
  CHECK(json["chat"]["answers"] == nlohmann::json{{"reasoning", ""}, {"calls", ""}});
  Artifact other = artifact;
  other.chat->templates[1].text = "</think>[TOOL_CALLS]";
  CHECK(describeArtifact(other, "tiny.moe").find("  calls of tools     mistral\n") !=
        std::string::npos);
  CHECK(nlohmann::json::parse(artifactAsJson(other, "tiny.moe"))["chat"]["answers"] ==
        nlohmann::json{{"reasoning", "<think>"}, {"calls", "mistral"}});
  CHECK(json["sampling"] == nlohmann::json{{"do_sample", true},
                                           {"temperature", 0.5},
                                           {"top_k", 20},
                                           {"top_p", 0.75},
                                           {"min_p", 0.125},
                                           {"repetition_penalty", 1.25}});
}

TEST_CASE("the page lists the measurements, if there are any") {
  Artifact artifact = tinyArtifact();
  CHECK(describeArtifact(artifact, "tiny.moe").find("accuracy") == std::string::npos);
  artifact.measured = tinyMeasured();
  std::string text = describeArtifact(artifact, "tiny.moe");
  for (const char *line : {
           "accuracy, relative to the same model at `source`:\n",
           "  target     loss in perplexity of at most 2.00%\n",
           "  measured   1.25%, at most 1.88% with 96.88% confidence\n",
           "  units      3 of 4 documents, whose losses have a standard deviation of 0.78%\n",
           "  also       KL 0.01562 nats per token, top-1 agreement 93.75%; search's text\n",
           "  on         3 windows of 64 tokens, set aside from the calibration texts\n",
           "  chosen by  greedy, quantizer nearest\n",
           "  search     12 measurements, 345 windows evaluated; calibration on 6789 tokens\n",
           "  two.txt   2000  fedcba9876543210        -      -       -  calibration, search\n",
           "  one.txt   1000  0123456789abcdef        3  1.25%   0.78%  acceptance\n",
           "  proposed by   experts  resident   loss  bound       KL  ms/token\n",
           "  greedy       4.00 KiB     512 B  1.25%  1.88%  0.01562      1.50  chosen\n",
       })
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, "\n", text);
}

TEST_CASE("page and JSON have the quantile, and the target that it has alone or beside the mean") {
  Artifact artifact = tinyArtifact();
  artifact.measured = tinyMeasured();
  artifact.measured->quantile = {0.9, 0.0225, 0.03};
  const std::string both = describeArtifact(artifact, "tiny.moe");
  for (const char *line :
       {"  target     loss in perplexity of at most 2.00%, and at least 90% of units lose at most "
        "3.00% each\n",
        "  measured   1.25%, at most 1.88% with 96.88% confidence, and at least 90% of units lose "
        "at most 2.25% each\n"})
    CHECK_MESSAGE(both.find(line) != std::string::npos, line, "\n", both);
  artifact.measured->target = 0;
  CHECK(describeArtifact(artifact, "tiny.moe")
            .find("  target     at least 90% of units lose at most 3.00% each\n") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(artifactAsJson(artifact, "tiny.moe"));
  CHECK(json["measured"]["quantile"] ==
        nlohmann::json{{"fraction", 0.9}, {"upper_bound", 0.0225}, {"target", 0.03}});
  artifact.measured->quantile.reset(); // As artifacts of earlier versions have it.
  CHECK(describeArtifact(artifact, "tiny.moe").find("(--accuracy-quantile)") != std::string::npos);
}

TEST_CASE("measurements on items are listed with the item options") {
  Artifact artifact = tinyArtifact();
  artifact.measured = tinyMeasuredOnItems();
  std::string text = describeArtifact(artifact, "tiny.moe");
  for (const char *line : {
           "  target     loss in exact of at most 2.00%\n",
           "  on         3 items, used for nothing else, --max-tokens 128 --stop \"\\n\"\n",
           "  search     12 measurements, 345 windows and items evaluated; calibration on 6789",
           "  one.jsonl   1000  0123456789abcdef      3     -       -  acceptance\n",
       })
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, "\n", text);
}

TEST_CASE("a loss in nats is not a percentage") {
  Artifact artifact = tinyArtifact();
  artifact.measured = tinyMeasured();
  artifact.measured->metric = "kl";
  artifact.measured->isSetAside = false;
  std::string text = describeArtifact(artifact, "tiny.moe");
  for (const char *line : {
           "  target     loss in kl of at most 0.02000 nats per token\n",
           ("  measured   0.01250 nats per token, at most 0.01875 nats per token with 96.88% "
            "confidence\n"),
           "  on         3 windows of 64 tokens, of texts used for nothing else\n",
           "  one.txt   1000  0123456789abcdef        3  0.01250  0.00781  acceptance\n",
           "  greedy       4.00 KiB     512 B  0.01250  0.01875  0.01562      1.50  chosen\n",
       })
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, "\n", text);
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

TEST_CASE("the JSON is one object with the same content") {
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
  CHECK_FALSE(json["experts"][6].contains("variants"));
  CHECK(json["expert_payload_bytes"] == expertPayloadBytes(artifact));
  CHECK(json["plans"][1]["quota_pages"] == artifact.plans[1].quotaPages);
  CHECK(json["programs"][0]["instructions"] == 48);
  CHECK(json["provenance"]["bits"] == "4");
  CHECK_FALSE(json.contains("measured"));
}

TEST_CASE("low copies are named beside the widths, and their bytes are apart") {
  const Artifact artifact = tinyCopiesArtifact();
  auto json = nlohmann::json::parse(artifactAsJson(artifact, "tiny.moe"));
  CHECK(json["low_copy_payload_bytes"] == lowCopyPayloadBytes(artifact));
  CHECK(json["expert_padding_bytes"] ==
        artifact.recordsBytes - expertPayloadBytes(artifact) - lowCopyPayloadBytes(artifact));
  CHECK(json["experts"][4]["bits"] == 8);
  CHECK(json["experts"][4]["low_copy_slices"] == 1);
  CHECK(json["experts"][6]["low_copy_slices"] == 2);
  CHECK(json["width_totals"][0]["format"] == "int8/32 + int4/32 as 2+2 copy");
  CHECK(json["width_totals"][1]["format"] == "int8/32 + int2/32 copy");
}

TEST_CASE("byte scales and the Hadamard transform are named") {
  const Artifact artifact = tinyHadamardArtifact();
  const std::string text = describeArtifact(artifact, "tiny.moe");
  for (const char *line : {
           "\n  8        8  int8/32+offsets as 2+2+4 ",
           "\n  4        4  nl4/32+bytescales ",
           "\n  4 experts hold the Hadamard transform of their matrices' rows\n",
       })
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, "\n", text);
  const std::string plain = describeArtifact(tinyArtifact(), "tiny.moe");
  CHECK(plain.find("Hadamard") == std::string::npos);
  const auto json = nlohmann::json::parse(artifactAsJson(artifact, "tiny.moe"));
  CHECK(json["residents"][0]["has_hadamard"] == false);
  CHECK(json["experts"][0]["slices"][0]["has_hadamard"] == false);
  CHECK(json["experts"][4]["slices"][1]["has_hadamard"] == true);
  CHECK(json["experts"][5]["slices"][0]["has_hadamard"] == true);
  CHECK(json["experts"][5]["slices"][0]["has_byte_scales"] == true);
  CHECK(json["experts"][6]["slices"][1]["down"]["has_hadamard"] == true);
}

TEST_CASE("a plan that lowers experts holds low copies in place of the others") {
  Artifact artifact = tinyCopiesArtifact();
  artifact.plans[0].rules.baseSlices = 1;
  const std::string text = describeArtifact(artifact, "tiny.moe");
  CHECK(text.find("held      low copies in place of the others") != std::string::npos);
  CHECK(text.find(" of a record alone") == std::string::npos);
}

TEST_CASE("the JSON has each layer's widths and their sums") {
  auto json = nlohmann::json::parse(artifactAsJson(tinyArtifact(), "tiny.moe"));
  REQUIRE(json["widths"].size() == 2);
  CHECK(json["widths"][1]["layer"] == 1);
  CHECK(json["widths"][1]["bits"] == std::vector<int>{8, 3, 4, 2});
  CHECK(json["experts"][5]["bits"] == 3);
  REQUIRE(json["width_totals"].size() == 5);
  CHECK(json["width_totals"][2]["bits"] == 4);
  CHECK(json["width_totals"][2]["format"] == "int4/32");
  CHECK(json["width_totals"][2]["experts"] == 4);
  uint64_t payload = 0, padding = 0;
  for (const auto &total : json["width_totals"]) {
    payload += total["payload_bytes"].get<uint64_t>();
    padding += total["padding_bytes"].get<uint64_t>();
  }
  CHECK(payload == json["expert_payload_bytes"]);
  CHECK(padding == json["expert_padding_bytes"]);
}

TEST_CASE("the JSON has all measurements") {
  Artifact artifact = tinyArtifact();
  artifact.measured = tinyMeasured();
  auto json = nlohmann::json::parse(artifactAsJson(artifact, "tiny.moe"))["measured"];
  CHECK(json["metric"] == "perplexity");
  CHECK(json["target"] == 0.02);
  CHECK(json["loss"] == 0.0125);
  CHECK(json["upper_bound"] == 0.01875);
  CHECK(json["kl_nats"] == 0.015625);
  CHECK(json["top_disagreement"] == 0.0625);
  CHECK(json["confidence"] == 0.96875);
  CHECK(json["units"] == 3);
  CHECK(json["documents"] == 4);
  CHECK(json["unit_spread"] == 0.0078125);
  CHECK(json["is_set_aside"] == true);
  CHECK(json["window_tokens"] == 64);
  CHECK(json["solver"] == "greedy");
  CHECK(json["quantizer"] == "nearest");
  CHECK(json["measurements"] == 12);
  CHECK(json["windows_evaluated"] == 345);
  CHECK(json["calibration_tokens"] == 6789);
  CHECK(json["calibration_texts"].size() == 2);
  auto text = json["acceptance_texts"][0];
  CHECK(text["name"] == "one.txt");
  CHECK(text["hash"] == "0123456789abcdef");
  CHECK(text["bytes"] == 1000);
  CHECK(text["windows"] == std::vector<int>{0, 2, 5});
  CHECK(text["reference_nats"] == std::vector<double>{100.5, 90.25, 110.125});
}
