// compressed-tensors checkpoints: 4-bit integers as Kimi K2 publishes them, and FP8.
#include "tests/unit/import/TestCodec.h"

#include <doctest/doctest.h>

using moec::WeightSource;

namespace {

/// In groups of 32 inputs; of the last group, 11 inputs exist, and of the last word, 3.
constexpr uint64_t kRows = 10, kCols = 75, kGroups = 3;

nlohmann::json configOf(nlohmann::json weights, const char *format = "pack-quantized") {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"ignore", {"lm_head", "re:.*self_attn.*"}},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}

const nlohmann::json kSymmetric = {{"num_bits", 4},     {"type", "int"},
                                   {"symmetric", true}, {"strategy", "group"},
                                   {"group_size", 32},  {"actorder", nullptr}};

const Codes kCodes = someCodes(kRows, kCols, 16), kZeros = someCodes(kRows, kGroups, 16);
const std::vector<float> kScales = tabulate(kRows, kGroups, [](uint64_t r, uint64_t g) {
  return static_cast<float>(1 + r * kGroups + g) / 64;
});

TestTensor shapeTensor(uint64_t rows, uint64_t cols) {
  return int32Tensor("m.weight_shape", {2}, {uint32_t(rows), uint32_t(cols)});
}

TestCheckpoint symmetric() {
  return quantizedTensors(configOf(kSymmetric),
                          {int32Tensor("m.weight_packed", {kRows, 10}, packedAlongRows(kCodes)),
                           bf16Tensor("m.weight_scale", {kRows, kGroups}, kScales),
                           shapeTensor(kRows, kCols)});
}

TestCheckpoint asymmetric() {
  TestCheckpoint files = symmetric();
  nlohmann::json weights = kSymmetric;
  weights["symmetric"] = false;
  files.config["quantization_config"] = configOf(weights);
  files.shards["model.safetensors"].push_back(
      int32Tensor("m.weight_zero_point", {2, kGroups}, packedAlongColumns(kZeros)));
  return files;
}

const WeightSource kWeight = wholeWeight("m.weight", kRows, kCols);

} // namespace

TEST_CASE("packed integers of 4 bits are codes less 8, times the scale of their group") {
  CHECK(decoded(symmetric(), kWeight) == tabulate(kRows, kCols, [](uint64_t r, uint64_t c) {
          return (static_cast<float>(kCodes.at(r, c)) - 8) * kScales[r * kGroups + c / 32];
        }));
}

TEST_CASE("the first word of a packed weight by hand") {
  const TestCheckpoint files = quantizedTensors(
      configOf(kSymmetric), {int32Tensor("m.weight_packed", {1, 1}, {0xf8907213}),
                             floatTensor("m.weight_scale", {1, 1}, {0.5f}), shapeTensor(1, 8)});
  CHECK(decoded(files, wholeWeight("m.weight", 1, 8)) ==
        std::vector<float>{-2.5f, -3.5f, -3, -0.5f, -4, 0.5f, 0, 3.5f});
}

TEST_CASE("packed zero points are subtracted, packed along outputs") {
  CHECK(decoded(asymmetric(), kWeight) == tabulate(kRows, kCols, [](uint64_t r, uint64_t c) {
          return (static_cast<float>(kCodes.at(r, c)) - static_cast<float>(kZeros.at(r, c / 32))) *
                 kScales[r * kGroups + c / 32];
        }));
}

TEST_CASE("a group number per input replaces its position") {
  TestCheckpoint files = asymmetric();
  std::vector<uint32_t> groups;
  for (uint32_t c = 0; c < kCols; ++c)
    groups.push_back((c * 7 + 1) % kGroups);
  files.shards["model.safetensors"].push_back(int32Tensor("m.weight_g_idx", {kCols}, groups));
  const auto value = [&](uint64_t r, uint64_t c) {
    return (static_cast<float>(kCodes.at(r, c)) - static_cast<float>(kZeros.at(r, groups[c]))) *
           kScales[r * kGroups + groups[c]];
  };
  CHECK(decoded(files, kWeight) == tabulate(kRows, kCols, value));
  WeightSource columns = wholeWeight("m.weight", 4, kRows);
  columns.transposed = true;
  columns.firstRow = 33;
  CHECK(decoded(files, columns) ==
        tabulate(4, kRows, [&](uint64_t r, uint64_t c) { return value(c, 33 + r); }));
}

TEST_CASE("a scale per row needs no groups") {
  nlohmann::json weights = kSymmetric;
  weights["strategy"] = "channel";
  weights["group_size"] = nullptr;
  TestCheckpoint files = symmetric();
  files.config["quantization_config"] = configOf(weights);
  files.tensor("m.weight_scale") = f16Tensor(
      "m.weight_scale", {kRows, 1}, std::vector<float>(kScales.begin(), kScales.begin() + kRows));
  CHECK(decoded(files, kWeight) == tabulate(kRows, kCols, [](uint64_t r, uint64_t c) {
          return (static_cast<float>(kCodes.at(r, c)) - 8) * kScales[r];
        }));
}

TEST_CASE("the quantization may be in text_config or under its older name") {
  const std::vector<float> expected = decoded(symmetric(), kWeight);
  TestCheckpoint files = symmetric();
  const nlohmann::json quantization = files.config["quantization_config"];
  files.config.erase("quantization_config");
  TestCheckpoint nested = files, older = files;
  nested.config["text_config"] = {{"quantization_config", quantization}};
  CHECK(decoded(nested, kWeight) == expected);
  older.config["compression_config"] = quantization;
  CHECK(decoded(older, kWeight) == expected);
  checkRefused(decodingStatus(files, kWeight), {"found no tensor \"m.weight\""});
}

TEST_CASE("float-quantized weights are FP8 with a scale per row") {
  const TestCheckpoint files = quantizedTensors(
      configOf({{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}}, "float-quantized"),
      {byteTensor("m.weight", "F8_E4M3", {2, 2}, {0x38, 0xb8, 0x40, 0x7e}),
       floatTensor("m.weight_scale", {2, 1}, {3, 0.5f})});
  CHECK(decoded(files, wholeWeight("m.weight", 2, 2)) == std::vector<float>{3, -3, 1, 224});
}

TEST_CASE("blocks of FP8 may be written as text, as old versions do") {
  const auto blocks = [](nlohmann::json structure) {
    return quantizedTensors(
        configOf({{"num_bits", 8},
                  {"type", "float"},
                  {"strategy", "block"},
                  {"block_structure", structure}},
                 "float-quantized"),
        {byteTensor("m.weight", "F8_E4M3", {2, 3}, {0x38, 0xb8, 0x40, 0x38, 0x38, 0x7e}),
         floatTensor("m.weight_scale", {1, 2}, {3, 0.5f})});
  };
  const WeightSource weight = wholeWeight("m.weight", 2, 3);
  const std::vector<float> expected = {3, -3, 1, 3, 3, 224};
  CHECK(decoded(blocks({4, 2}), weight) == expected);
  CHECK(decoded(blocks("4x2"), weight) == expected);
  for (const char *text : {"", "4", "4x", "x2", "4x2x1", "4X2", "0x2", "4x-2", " 4x2", "4x2 "})
    checkRefused(decodingStatus(blocks(text), weight),
                 {"'quantization_config.config_groups.group_0.weights.block_structure': found \"" +
                      std::string(text) + "\"",
                  "expected two numbers"});
  checkRefused(decodingStatus(blocks("2x2"), wholeWeight("m.weight", 3, 3)), {"m.weight"});
}

TEST_CASE("mixed-precision has integers, FP8 and NVFP4 side by side") {
  nlohmann::json config = configOf(kSymmetric, "mixed-precision");
  config["config_groups"]["group_1"] = {
      {"format", "float-quantized"},
      {"weights", {{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}}}};
  config["config_groups"]["group_2"] = {
      {"weights",
       {{"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}}}};
  TestCheckpoint files = symmetric();
  const std::vector<float> integers = decoded(files, kWeight);
  files.config["quantization_config"] = config;
  for (const TestTensor &tensor :
       {byteTensor("f.weight", "F8_E4M3", {2, 2}, {0x38, 0xb8, 0x40, 0x7e}),
        floatTensor("f.weight_scale", {2, 1}, {3, 0.5f}),
        byteTensor("n.weight_packed", "U8", {1, 2}, {0x21, 0x93}),
        byteTensor("n.weight_scale", "F8_E4M3", {1, 1}, {0x38}),
        floatTensor("n.weight_global_scale", {1}, {0.5f})})
    files.shards["model.safetensors"].push_back(tensor);
  CHECK(decoded(files, kWeight) == integers);
  CHECK(decoded(files, wholeWeight("f.weight", 2, 2)) == std::vector<float>{3, -3, 1, 224});
  CHECK(decoded(files, wholeWeight("n.weight", 1, 4)) == std::vector<float>{1, 2, 3, -1});

  TestCheckpoint broken = files;
  broken.config["quantization_config"]["config_groups"]["group_1"]["weights"]["num_bits"] = 16;
  checkRefused(decodingStatus(broken, kWeight),
               {"'quantization_config.config_groups.group_1.format': found \"float-quantized\"",
                "its weights have 16 bits of type float"});
  broken = files;
  broken.tensor("n.weight_packed") = floatTensor("n.weight_packed", {1, 2}, {1, 2});
  checkRefused(decodingStatus(broken, wholeWeight("n.weight", 1, 4)),
               {"found dtype F32, expected I32; or ", "found dtype F32, expected U8"});
}

TEST_CASE("two groups of integers differ by the number of their scales") {
  nlohmann::json config = configOf(kSymmetric);
  config["config_groups"]["group_1"] = config["config_groups"]["group_0"];
  config["config_groups"]["group_1"]["weights"]["group_size"] = 128;
  TestCheckpoint files = symmetric();
  const std::vector<float> expected = decoded(files, kWeight);
  files.config["quantization_config"] = config;
  CHECK(decoded(files, kWeight) == expected);
}

TEST_CASE("broken packed checkpoints are refused by file, tensor, found and expected") {
  checkBrokenCodes(
      {{"no scales", [](auto &c) { c.remove("m.weight_scale"); },
        "model.safetensors: tensor \"m.weight_packed\": found no tensor \"m.weight_scale\""},
       {"no zero points", [](auto &c) { c.remove("m.weight_zero_point"); },
        "found no tensor \"m.weight_zero_point\", expected its zero points"},
       {"zero points of a symmetric weight",
        [](auto &c) { c.config["quantization_config"] = configOf(kSymmetric); },
        "\"m.weight_zero_point\": found zero points, expected none"},
       {"no shape", [](auto &c) { c.remove("m.weight_shape"); },
        "found no tensor \"m.weight_shape\""},
       {"a shape of other words",
        [](auto &c) { c.tensor("m.weight_shape") = shapeTensor(kRows, 81); },
        "\"m.weight_shape\": found [10, 81], expected a shape of 10 rows that fills [10, 10] "
        "words"},
       {"groups of another size",
        [](auto &c) {
          c.config["quantization_config"]["config_groups"]["group_0"]["weights"]["group_size"] =
              128;
        },
        "\"m.weight_scale\": found shape [10, 3], expected [10, 1] for weights [10, 75]"},
       {"two groups that both fit",
        [](auto &c) {
          auto &groups = c.config["quantization_config"]["config_groups"];
          groups["group_1"] = groups["group_0"];
          groups["group_1"]["weights"]["group_size"] = 36;
        },
        "\"m.weight_packed\": found scales that fit compressed-tensors, 4-bit integers, groups of "
        "32 inputs, with zero points and compressed-tensors"},
       {"rotated weights",
        [](auto &c) {
          c.config["quantization_config"]["transform_config"] = {{"config_groups", {{"R1", 1}}}};
        },
        "'quantization_config.transform_config': found an object, expected null or none"},
       {"codes of another type", [](auto &c) { c.tensor("m.weight_packed").type = "F32"; },
        "\"m.weight_packed\": found dtype F32, expected I32"},
       {"zero points of another shape",
        [](auto &c) {
          c.tensor("m.weight_zero_point").shape = {kGroups, 2};
        },
        "found shape [3, 2], expected [2, 3] for 10 x 3 zero points"},
       {"a scale that is infinite",
        [](auto &c) { c.tensor("m.weight_scale").bytes.replace(8, 2, "\x80\x7f"); },
        "\"m.weight_scale\": found the scale infinity at row 1, column 1"},
       {"a group number beyond the scales",
        [](auto &c) {
          c.shards["model.safetensors"].push_back(
              int32Tensor("m.weight_g_idx", {kCols}, std::vector<uint32_t>(kCols, kGroups)));
        },
        "\"m.weight_g_idx\": found group 3 for input 0, expected 0 to 2"},
       {"integers of 8 bits",
        [](auto &c) {
          c.config["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = 8;
        },
        "'quantization_config.format': found \"pack-quantized\", expected"},
       {"an unknown format",
        [](auto &c) { c.config["quantization_config"]["format"] = "marlin-24"; },
        "'quantization_config.format': found \"marlin-24\", expected"}},
      asymmetric, kWeight);
}
