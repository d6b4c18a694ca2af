// GPTQ and AWQ checkpoints of 4 bits.
#include "tests/unit/import/TestCodec.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

using moec::WeightSource;

namespace {

/// Outputs and inputs; the last group has 8 inputs.
constexpr uint64_t kRows = 16, kCols = 40, kGroup = 16, kGroups = 3;

const nlohmann::json kGptq = {
    {"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}, {"desc_act", false}, {"sym", false}};
const nlohmann::json kAwq = {{"quant_method", "awq"},
                             {"bits", 4},
                             {"group_size", 16},
                             {"version", "gemm"},
                             {"zero_point", true}};

// As the tensors are stored: inputs or groups first.
const Codes kCodes = someCodes(kCols, kRows, 16), kZeros = someCodes(kGroups, kRows, 16);
const std::vector<float> kScales = tabulate(kGroups, kRows, [](uint64_t g, uint64_t r) {
  return static_cast<float>(1 + g * kRows + r) / 128;
});

std::vector<uint32_t> positions() {
  std::vector<uint32_t> groups;
  for (uint32_t c = 0; c < kCols; ++c)
    groups.push_back(c / kGroup);
  return groups;
}

std::vector<uint32_t> shuffled() {
  std::vector<uint32_t> groups = positions();
  for (uint32_t c = 0; c < kCols; ++c)
    std::swap(groups[c], groups[(c * 11 + 3) % kCols]);
  return groups;
}

TestCheckpoint gptq(const nlohmann::json &config, const std::vector<uint32_t> &groups) {
  return quantizedTensors(config,
                          {int32Tensor("m.qweight", {kCols / 8, kRows}, packedAlongColumns(kCodes)),
                           int32Tensor("m.qzeros", {kGroups, kRows / 8}, packedAlongRows(kZeros)),
                           f16Tensor("m.scales", {kGroups, kRows}, kScales),
                           int32Tensor("m.g_idx", {kCols}, groups)});
}

/// AWQ's words by a rule of its own: the even outputs of 8 first, then the odd ones.
std::vector<uint32_t> interleaved(const Codes &codes) {
  std::vector<uint32_t> packed(codes.rows * codes.cols / 8);
  for (uint64_t r = 0; r < codes.rows; ++r)
    for (uint64_t c = 0; c < codes.cols; ++c) {
      const uint64_t nibble = c % 8 / 2 + (c % 2 == 0 ? 0 : 4);
      packed[(r * codes.cols + c) / 8] |= codes.at(r, c) << 4 * nibble;
    }
  return packed;
}

TestCheckpoint awq() {
  return quantizedTensors(kAwq, {int32Tensor("m.qweight", {kCols, kRows / 8}, interleaved(kCodes)),
                                 int32Tensor("m.qzeros", {kGroups, kRows / 8}, interleaved(kZeros)),
                                 f16Tensor("m.scales", {kGroups, kRows}, kScales)});
}

/// The values, where zero points differ from their codes by `added`, modulo 16.
std::vector<float> expectedValues(const std::vector<uint32_t> &groups, uint32_t added) {
  return tabulate(kRows, kCols, [&](uint64_t r, uint64_t c) {
    const auto zero = static_cast<float>((kZeros.at(groups[c], r) + added) % 16);
    return (static_cast<float>(kCodes.at(c, r)) - zero) * kScales[groups[c] * kRows + r];
  });
}

TestCheckpoint gptqReordered() {
  nlohmann::json config = kGptq;
  config["desc_act"] = true;
  return gptq(config, shuffled());
}

const WeightSource kWeight = wholeWeight("m.weight", kRows, kCols);

} // namespace

TEST_CASE("GPTQ's first version stores zero points less one") {
  CHECK(decoded(gptq(kGptq, positions()), kWeight) == expectedValues(positions(), 1));
}

TEST_CASE("GPTQ's second version stores zero points as they are") {
  nlohmann::json config = kGptq;
  config["checkpoint_format"] = "gptq_v2";
  CHECK(decoded(gptq(config, positions()), kWeight) == expectedValues(positions(), 0));
}

TEST_CASE("auto-round packs as GPTQ's first version, as its second or as AWQ") {
  nlohmann::json config = {{"quant_method", "auto-round"}, {"group_size", 16}, {"sym", true}};
  CHECK(decoded(gptq(config, positions()), kWeight) == expectedValues(positions(), 1));
  for (const auto &[format, added] : std::map<std::string, uint32_t>{
           {"auto_round:auto_gptq", 1}, {"auto_round:gptqmodel", 0}, {"auto_round", 0}}) {
    config["packing_format"] = format;
    TestCheckpoint files = gptq(config, {});
    files.remove("m.g_idx"); // It has none.
    CHECK(decoded(files, kWeight) == expectedValues(positions(), added));
  }
  config["packing_format"] = "auto_round:auto_awq";
  TestCheckpoint files = awq();
  files.config["quantization_config"] = config;
  CHECK(decoded(files, kWeight) == expectedValues(positions(), 0));
}

TEST_CASE("what auto-round stores otherwise is refused by key and layer:") {
  checkBrokenCodes(
      {{"another packing",
        [](auto &c) {
          c.config["quantization_config"]["packing_format"] = "auto_round:fp8_static";
        },
        "'quantization_config.packing_format': found \"auto_round:fp8_static\", expected "
        "\"auto_round:auto_gptq\""},
       {"other bits", [](auto &c) { c.config["quantization_config"]["bits"] = 2; },
        "'quantization_config.bits': found 2"},
       {"another type", [](auto &c) { c.config["quantization_config"]["data_type"] = "mx_fp"; },
        "'quantization_config.data_type': found \"mx_fp\", expected \"int\""},
       {"a layer of 8 bits",
        [](auto &c) { c.config["quantization_config"]["extra_config"]["m"]["bits"] = 8; },
        "'quantization_config.extra_config.m.bits': found 8, expected 4, or 16"},
       {"no groups of this size",
        [](auto &c) { c.config["quantization_config"]["group_size"] = 128; },
        "\"m.scales\": found shape [3, 16], expected [1, 16]"}},
      [] {
        return gptq({{"quant_method", "auto-round"},
                     {"packing_format", "auto_round:auto_gptq"},
                     {"group_size", 16}},
                    positions());
      },
      kWeight);
}

TEST_CASE("layers may have groups of another size, or no codes") {
  nlohmann::json autoRound = {
      {"quant_method", "auto-round"},
      {"group_size", 128},
      {"extra_config",
       {{"lm_head", {{"bits", 16}, {"data_type", "float"}}}, {"m", {{"group_size", 16}}}}}};
  CHECK(decoded(gptq(autoRound, positions()), kWeight) == expectedValues(positions(), 1));
  nlohmann::json dynamic = kGptq;
  dynamic["group_size"] = 128;
  dynamic["dynamic"] = {{"-:.*attn.*", nlohmann::json::object()},
                        {"+:m", {{"bits", 4}, {"group_size", 16}}}};
  CHECK(decoded(gptq(dynamic, positions()), kWeight) == expectedValues(positions(), 1));
  dynamic["dynamic"]["+:m"]["bits"] = 8;
  checkRefused(decodingStatus(gptq(dynamic, positions()), kWeight),
               {"'quantization_config.dynamic.+:m.bits': found 8, expected 4, or 16"});
  // Groups of 16 and 18 both make three.
  autoRound["group_size"] = 18;
  checkRefused(decodingStatus(gptq(autoRound, positions()), kWeight),
               {"found scales that fit gptq, 4-bit integers, groups of 18 inputs and gptq"});
}

TEST_CASE("parameters of GPTQ that change values are refused:") {
  checkBrokenCodes(
      {{"words of 16 bits",
        [](auto &c) { c.config["quantization_config"]["pack_dtype"] = "int16"; },
        "'quantization_config.pack_dtype': found \"int16\", expected \"int32\""},
       {"Marlin's packing",
        [](auto &c) { c.config["quantization_config"]["is_marlin_format"] = true; },
        "'quantization_config.is_marlin_format': found true, expected false"},
       {"an adapter",
        [](auto &c) {
          c.config["quantization_config"]["adapter"] = {{"name", "lora"}};
        },
        "'quantization_config.adapter': found an object, expected null or none"}},
      [] { return gptq(kGptq, positions()); }, kWeight);
}

TEST_CASE("MLX's format is refused by name, under either of its keys") {
  for (const char *key : {"quantization", "quantization_config"}) {
    TestCheckpoint files = gptq(kGptq, positions());
    files.config.erase("quantization_config");
    files.config[key] = {{"group_size", 64}, {"bits", 4}};
    checkRefused(decodingStatus(files, kWeight),
                 {std::string("key '") + key + "'", "none of the format of MLX",
                  "Use the checkpoint that it was converted from"});
  }
}

TEST_CASE("GPTQ orders inputs by activation with a group number each") {
  CHECK(decoded(gptqReordered(), kWeight) == expectedValues(shuffled(), 1));
}

TEST_CASE("GPTQ without groups has a scale per output, and needs no group numbers") {
  nlohmann::json config = kGptq;
  config["group_size"] = -1;
  TestCheckpoint files = gptq(config, {});
  files.remove("m.g_idx");
  files.tensor("m.scales") =
      f16Tensor("m.scales", {1, kRows}, {kScales.begin(), kScales.begin() + kRows});
  files.tensor("m.qzeros") = int32Tensor("m.qzeros", {1, 2}, {0x77777777, 0x7777777f});
  CHECK(decoded(files, kWeight) == tabulate(kRows, kCols, [](uint64_t r, uint64_t c) {
          // 15 stands for the zero point 0.
          return (static_cast<float>(kCodes.at(c, r)) - (r == 8 ? 0 : 8)) * kScales[r];
        }));
}

TEST_CASE("rows of a GPTQ weight with a step, and its columns, are parts of its values") {
  const std::vector<float> all = decoded(gptqReordered(), kWeight);
  WeightSource rows = wholeWeight("m.weight", 3, kCols);
  rows.firstRow = 5;
  rows.rowStep = 4;
  CHECK(decoded(gptqReordered(), rows) ==
        tabulate(3, kCols, [&](uint64_t r, uint64_t c) { return all[(5 + 4 * r) * kCols + c]; }));
  WeightSource columns = wholeWeight("m.weight", 7, kRows);
  columns.transposed = true;
  columns.firstRow = 13;
  CHECK(decoded(gptqReordered(), columns) ==
        tabulate(7, kRows, [&](uint64_t r, uint64_t c) { return all[c * kCols + 13 + r]; }));
}

TEST_CASE("a weight of several reads is decoded like a small one") {
  // Words of 1.2 MB, read 1 MiB at a time.
  constexpr uint64_t kOutputs = 2048, kInputs = 1200;
  const Codes codes = someCodes(kInputs, kOutputs, 16);
  const std::vector<float> scales = tabulate(
      1, kOutputs, [](uint64_t, uint64_t r) { return static_cast<float>(1 + r % 100) / 128; });
  nlohmann::json config = kGptq;
  config["group_size"] = -1;
  const TestCheckpoint files = quantizedTensors(
      config,
      {int32Tensor("m.qweight", {kInputs / 8, kOutputs}, packedAlongColumns(codes)),
       int32Tensor("m.qzeros", {1, kOutputs / 8}, std::vector<uint32_t>(kOutputs / 8, 0x77777777)),
       f16Tensor("m.scales", {1, kOutputs}, scales)});
  CHECK(decoded(files, wholeWeight("m.weight", kOutputs, kInputs)) ==
        tabulate(kOutputs, kInputs, [&](uint64_t r, uint64_t c) {
          return (static_cast<float>(codes.at(c, r)) - 8) * scales[r];
        }));
}

TEST_CASE("AWQ's words interleave outputs") {
  CHECK(decoded(awq(), kWeight) == expectedValues(positions(), 0));
}

TEST_CASE("broken GPTQ checkpoints are refused by file, tensor, found and expected") {
  checkBrokenCodes(
      {{"no scales", [](auto &c) { c.remove("m.scales"); },
        "model.safetensors: tensor \"m.qweight\": found no tensor \"m.scales\""},
       {"no zero points", [](auto &c) { c.remove("m.qzeros"); }, "found no tensor \"m.qzeros\""},
       {"no group numbers although the config orders by activation",
        [](auto &c) { c.remove("m.g_idx"); }, "found no tensor \"m.g_idx\""},
       {"groups of another size",
        [](auto &c) { c.config["quantization_config"]["group_size"] = 8; },
        "\"m.scales\": found shape [3, 16], expected [5, 16] for 16 outputs and 40 inputs"},
       {"zero points of another shape",
        [](auto &c) {
          c.tensor("m.qzeros").shape = {2, 3};
        },
        "\"m.qzeros\": found shape [2, 3], expected [3, 2]"},
       {"codes of another type", [](auto &c) { c.tensor("m.qweight").type = "F32"; },
        "\"m.qweight\": found dtype F32, expected I32"},
       {"a scale that is NaN",
        [](auto &c) { c.tensor("m.scales").bytes.replace(2, 2, "\x01\x7e"); },
        "\"m.scales\": found the scale NaN at row 1, column 0"},
       {"a negative group number",
        [](auto &c) { c.tensor("m.g_idx").bytes.replace(8, 4, "\xff\xff\xff\xff"); },
        "\"m.g_idx\": found group -1 for input 2, expected 0 to 2"},
       {"3 bits", [](auto &c) { c.config["quantization_config"]["bits"] = 3; },
        "'quantization_config.bits': found 3, expected"},
       {"a group size of 0", [](auto &c) { c.config["quantization_config"]["group_size"] = 0; },
        "'quantization_config.group_size': found 0, expected"},
       {"another layout",
        [](auto &c) { c.config["quantization_config"]["checkpoint_format"] = "marlin"; },
        "'quantization_config.checkpoint_format': found \"marlin\", expected \"gptq\""}},
      gptqReordered, kWeight);
}

TEST_CASE("broken AWQ checkpoints are refused by file, tensor, found and expected") {
  checkBrokenCodes(
      {{"no scales", [](auto &c) { c.remove("m.scales"); },
        "model.safetensors: tensor \"m.qweight\": found no tensor \"m.scales\""},
       {"no zero points", [](auto &c) { c.remove("m.qzeros"); }, "found no tensor \"m.qzeros\""},
       {"packed as GPTQ does",
        [](auto &c) {
          c.tensor("m.qweight").shape = {kCols / 8, kRows};
        },
        "\"m.scales\": found shape [3, 16], expected [1, 128]"},
       {"scales of another type", [](auto &c) { c.tensor("m.scales").type = "I16"; },
        "\"m.scales\": found dtype I16, expected F16 or BF16 or F32"},
       {"a scale that is NaN",
        [](auto &c) { c.tensor("m.scales").bytes.replace(2, 2, "\x01\x7e"); },
        "\"m.scales\": found the scale NaN"},
       {"the layout for matrices times vectors",
        [](auto &c) { c.config["quantization_config"]["version"] = "gemv"; },
        "'quantization_config.version': found \"gemv\", expected \"gemm\""},
       {"no zero points by the config",
        [](auto &c) { c.config["quantization_config"]["zero_point"] = false; },
        "'quantization_config.zero_point': found false"}},
      awq, kWeight);
}
