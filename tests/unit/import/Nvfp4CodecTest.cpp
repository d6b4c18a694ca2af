// NVFP4 checkpoints of ModelOpt and compressed-tensors.
#include "tests/unit/import/TestCodec.h"

#include <doctest/doctest.h>

#include <cmath>

using moec::WeightSource;

namespace {

/// The last group has 8 inputs.
constexpr uint64_t kRows = 3, kCols = 40, kGroups = 3;

const nlohmann::json kModelOpt = {
    {"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"ignore", {"lm_head"}}};
const nlohmann::json kCompressed = {{"quant_method", "compressed-tensors"},
                                    {"format", "nvfp4-pack-quantized"},
                                    {"config_groups",
                                     {{"group_0",
                                       {{"weights",
                                         {{"num_bits", 4},
                                          {"type", "float"},
                                          {"strategy", "tensor_group"},
                                          {"group_size", 16}}}}}}}};

const std::vector<uint32_t> kBytes = someCodes(kRows, kCols / 2, 256).values;
const std::vector<uint32_t> kScales = {0x38, 0x45, 0x7e, 0x01, 0x30, 0x52, 0x3b, 0x66, 0x08};
constexpr float kGlobal = 0.0123f;

TestCheckpoint modelOpt() {
  return quantizedTensors(kModelOpt,
                          {byteTensor("m.weight", "U8", {kRows, kCols / 2}, kBytes),
                           byteTensor("m.weight_scale", "F8_E4M3", {kRows, kGroups}, kScales),
                           floatTensor("m.weight_scale_2", {}, {kGlobal}),
                           floatTensor("m.input_scale", {}, {3})});
}

TestCheckpoint compressed() {
  return quantizedTensors(kCompressed,
                          {byteTensor("m.weight_packed", "U8", {kRows, kCols / 2}, kBytes),
                           byteTensor("m.weight_scale", "F8_E4M3", {kRows, kGroups}, kScales),
                           floatTensor("m.weight_global_scale", {1}, {kGlobal}),
                           floatTensor("m.input_global_scale", {1}, {3})});
}

/// The formats' definitions, for scales that are positive.
float e4m3(uint32_t code) {
  const float mantissa = static_cast<float>(code & 7) / 8;
  const int exponent = static_cast<int>(code >> 3);
  return exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
}

float e2m1(uint32_t code) {
  const int exponent = static_cast<int>(code >> 1 & 3);
  const float half = static_cast<float>(code & 1) / 2;
  const float magnitude = exponent == 0 ? half : std::ldexp(1 + half, exponent - 1);
  return code & 8 ? -magnitude : magnitude;
}

float codeAt(uint64_t row, uint64_t col) {
  const uint32_t byte = kBytes[row * kCols / 2 + col / 2];
  return e2m1(col % 2 == 0 ? byte & 15 : byte >> 4);
}

const WeightSource kWeight = wholeWeight("m.weight", kRows, kCols);

} // namespace

TEST_CASE("ModelOpt's NVFP4 multiplies by the scale of the group and of the tensor") {
  CHECK(decoded(modelOpt(), kWeight) == tabulate(kRows, kCols, [](uint64_t r, uint64_t c) {
          return codeAt(r, c) * (e4m3(kScales[r * kGroups + c / 16]) * kGlobal);
        }));
}

TEST_CASE("compressed-tensors' NVFP4 divides the group's scale by the tensor's") {
  CHECK(decoded(compressed(), kWeight) == tabulate(kRows, kCols, [](uint64_t r, uint64_t c) {
          return codeAt(r, c) * (e4m3(kScales[r * kGroups + c / 16]) / kGlobal);
        }));
}

TEST_CASE("ModelOpt's mixed precision has NVFP4 and FP8 in different layers") {
  TestCheckpoint files = modelOpt();
  const std::vector<float> expected = decoded(files, kWeight);
  const nlohmann::json mixed = {{"quant_method", "modelopt"},
                                {"quant_algo", "MIXED_PRECISION"},
                                {"quantized_layers",
                                 {{"m", {{"quant_algo", "NVFP4"}, {"group_size", 16}}},
                                  {"f", {{"quant_algo", "FP8"}}},
                                  {"b", {{"quant_algo", "fp8_pb_wo"}}}}}};
  files.config["quantization_config"] = mixed;
  for (const TestTensor &tensor :
       {byteTensor("f.weight", "F8_E4M3", {2, 2}, {0x38, 0xb8, 0x40, 0x7e}),
        floatTensor("f.weight_scale", {}, {0.5f}), floatTensor("f.input_scale", {}, {3}),
        byteTensor("b.weight", "F8_E4M3", {2, 129}, std::vector<uint32_t>(size_t{2} * 129, 0x38)),
        floatTensor("b.weight_scale", {1, 1, 2, 1}, {3, 4})})
    files.shards["model.safetensors"].push_back(tensor);
  CHECK(decoded(files, kWeight) == expected);
  CHECK(decoded(files, wholeWeight("f.weight", 2, 2)) == std::vector<float>{0.5f, -0.5f, 1, 224});
  CHECK(decoded(files, wholeWeight("b.weight", 2, 129)) ==
        tabulate(2, 129, [](uint64_t, uint64_t c) { return c < 128 ? 3.0f : 4.0f; }));

  TestCheckpoint broken = files;
  broken.config["quantization_config"]["quantized_layers"]["f"]["quant_algo"] = "W4A8_AWQ";
  checkRefused(decodingStatus(broken, kWeight),
               {"'quantization_config.quantized_layers.f.quant_algo': found \"W4A8_AWQ\""});
  broken.config["quantization_config"]["quantized_layers"] = nlohmann::json::object();
  checkRefused(decodingStatus(broken, kWeight), {"quantized_layers", "at least one layer"});
  broken.config["quantization_config"].erase("quantized_layers");
  checkRefused(decodingStatus(broken, kWeight), {"'quantization_config.quantized_layers'"});
}

TEST_CASE("ModelOpt's FP8 may have a scale per row, as a vector") {
  const TestCheckpoint files =
      quantizedTensors({{"quant_method", "modelopt"}, {"quant_algo", "FP8_PER_CHANNEL_PER_TOKEN"}},
                       {byteTensor("m.weight", "F8_E4M3", {2, 2}, {0x38, 0xb8, 0x40, 0x7e}),
                        floatTensor("m.weight_scale", {2}, {3, 0.5f})});
  CHECK(decoded(files, wholeWeight("m.weight", 2, 2)) == std::vector<float>{3, -3, 1, 224});
}

TEST_CASE("fused NVFP4 experts have a scale of the tensor each") {
  const TestCheckpoint files = quantizedTensors(
      kModelOpt, {byteTensor("e.up", "U8", {kRows, 1, kCols / 2}, kBytes),
                  byteTensor("e.up_scale", "F8_E4M3", {kRows, 1, kGroups}, kScales),
                  floatTensor("e.up_scale_2", {kRows}, {1, 2, 4})});
  for (const uint32_t e : {0u, 1u, 2u}) {
    WeightSource expert = wholeWeight("e.up", 1, kCols);
    expert.index = e;
    CHECK(decoded(files, expert) == tabulate(1, kCols, [&](uint64_t, uint64_t c) {
            return codeAt(e, c) * (e4m3(kScales[e * kGroups + c / 16]) * std::ldexp(1.0f, int(e)));
          }));
  }
}

TEST_CASE("ModelOpt's first releases described the weights in a file of their own") {
  TestCheckpoint files = modelOpt();
  files.config.erase("quantization_config");
  files.raw["hf_quant_config.json"] =
      R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}})";
  CHECK(decoded(files, kWeight) == decoded(modelOpt(), kWeight));
  files.raw["hf_quant_config.json"] =
      R"({"quantization": {"quant_algo": "NVFP4", "group_size": 32}})";
  checkRefused(decodingStatus(files, kWeight),
               {"hf_quant_config.json", "'quantization.group_size': found 32"});
  files.raw["hf_quant_config.json"] = R"({"quantization": {"quant_algo": null}})";
  checkRefused(decodingStatus(files, kWeight), {"found U8 [3, 20], expected BF16, F16 or F32"});
}

TEST_CASE("ModelOpt's FP8 has a scale per tensor") {
  const TestCheckpoint files =
      quantizedTensors({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}},
                       {byteTensor("m.weight", "F8_E4M3", {1, 3}, {0x38, 0xc0, 0x01}),
                        floatTensor("m.weight_scale", {}, {0.5f})});
  CHECK(decoded(files, wholeWeight("m.weight", 1, 3)) == std::vector<float>{0.5f, -1, 0x1p-10f});
}

TEST_CASE("broken NVFP4 checkpoints are refused by file, tensor, found and expected") {
  checkBrokenCodes(
      {{"no scales", [](auto &c) { c.remove("m.weight_scale"); },
        "model.safetensors: tensor \"m.weight\": found no tensor \"m.weight_scale\""},
       {"no scale of the tensor", [](auto &c) { c.remove("m.weight_scale_2"); },
        "found no tensor \"m.weight_scale_2\", expected its global scale"},
       {"scales for groups of 32",
        [](auto &c) {
          c.tensor("m.weight_scale") =
              byteTensor("m.weight_scale", "F8_E4M3", {3, 2}, {1, 1, 1, 1, 1, 1});
        },
        "\"m.weight_scale\": found shape [3, 2], expected [3, 3]"},
       {"scales of another type", [](auto &c) { c.tensor("m.weight_scale").type = "U8"; },
        "\"m.weight_scale\": found dtype U8, expected F8_E4M3"},
       {"a scale of the tensor for every row",
        [](auto &c) {
          c.tensor("m.weight_scale_2") = floatTensor("m.weight_scale_2", {3}, {1, 1, 1});
        },
        "\"m.weight_scale_2\": found shape [3], expected [] or [1]"},
       {"a scale that is NaN", [](auto &c) { c.tensor("m.weight_scale").bytes[4] = '\x7f'; },
        "\"m.weight_scale\": found the scale NaN at row 1, column 1"},
       {"a scale of the tensor that is NaN",
        [](auto &c) { c.tensor("m.weight_scale_2").bytes.replace(0, 4, "\0\0\xc0\x7f", 4); },
        "\"m.weight_scale_2\": found nan, expected a finite number"},
       {"another algorithm",
        [](auto &c) { c.config["quantization_config"]["quant_algo"] = "W4A8_AWQ"; },
        "'quantization_config.quant_algo': found \"W4A8_AWQ\", expected"}},
      modelOpt, kWeight);
  checkBrokenCodes(
      {{"a divisor of zero",
        [](auto &c) {
          c.tensor("m.weight_global_scale") = floatTensor("m.weight_global_scale", {1}, {0});
        },
        "\"m.weight_global_scale\": found 0, expected a finite number that is not zero"}},
      compressed, kWeight);
}
