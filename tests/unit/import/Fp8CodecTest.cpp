// FP8 checkpoints: values against the format's formula, in blocks, rows and whole tensors.
#include "compiler/import/ConfigOnly.h"
#include "tests/unit/import/TestCodec.h"

#include <doctest/doctest.h>

#include <cmath>

using moec::WeightSource;

namespace {

const nlohmann::json kBlocks = {{"quant_method", "fp8"},
                                {"fmt", "e4m3"},
                                {"activation_scheme", "dynamic"},
                                {"weight_block_size", {4, 3}},
                                {"modules_to_not_convert", {"lm_head"}}};

/// By the format's definition: (-1)^s * 2^(e - 7) * (1 + m / 8), or 2^-6 * m / 8 if e is 0.
float e4m3(uint32_t code) {
  const int exponent = static_cast<int>(code >> 3 & 15);
  const float mantissa = static_cast<float>(code & 7) / 8;
  const float magnitude =
      exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
  return code & 0x80 ? -magnitude : magnitude;
}

/// Both signs of every finite code are below 127 and from 128 on.
Codes finiteCodes(uint64_t rows, uint64_t cols) {
  Codes codes = someCodes(rows, cols, 254);
  for (uint32_t &code : codes.values)
    code += code >= 127 ? 1 : 0;
  return codes;
}

/// 10 x 8 in blocks of 4 x 3: three by three blocks, of which the last are 2 high and 2 wide.
const Codes kCodes = finiteCodes(10, 8);
const std::vector<float> kScales = {0.5f,   3.25f, 1e-3f, 0.0078125f, 2.5f,
                                    -1.25f, 0.1f,  7.0f,  1.0f / 3};

TestCheckpoint blocks() {
  return quantizedTensors(kBlocks, {byteTensor("m.weight", "F8_E4M3", {10, 8}, kCodes.values),
                                    floatTensor("m.weight_scale_inv", {3, 3}, kScales)});
}

} // namespace

TEST_CASE("FP8 weights are codes times the scale of their block, partial blocks included") {
  CHECK(decoded(blocks(), wholeWeight("m.weight", 10, 8)) ==
        tabulate(10, 8, [](uint64_t r, uint64_t c) {
          return e4m3(kCodes.at(r, c)) * kScales[r / 4 * 3 + c / 3];
        }));
}

TEST_CASE("every finite E4M3 code has its value") {
  std::vector<uint32_t> codes;
  for (uint32_t code = 0; code < 256; ++code)
    if ((code & 0x7f) != 0x7f)
      codes.push_back(code);
  const TestCheckpoint files = quantizedTensors(
      {{"quant_method", "fp8"}},
      {byteTensor("m.weight", "F8_E4M3", {1, 254}, codes), floatTensor("m.weight_scale", {}, {1})});
  const std::vector<float> values = decoded(files, wholeWeight("m.weight", 1, 254));
  CHECK(values == tabulate(1, 254, [&](uint64_t, uint64_t c) { return e4m3(codes[c]); }));
  CHECK(values[1] == 0x1p-9f);
  CHECK(values[0x7e] == 448);
}

TEST_CASE("a part of an FP8 weight is the same part of its values") {
  const std::vector<float> all = decoded(blocks(), wholeWeight("m.weight", 10, 8));
  WeightSource part = wholeWeight("m.weight", 3, 8);
  part.firstRow = 3;
  part.rowStep = 3;
  CHECK(decoded(blocks(), part) ==
        tabulate(3, 8, [&](uint64_t r, uint64_t c) { return all[(3 + 3 * r) * 8 + c]; }));
}

TEST_CASE("an FP8 weight may be read transposed") {
  const std::vector<float> all = decoded(blocks(), wholeWeight("m.weight", 10, 8));
  WeightSource columns = wholeWeight("m.weight", 3, 10);
  columns.transposed = true;
  columns.firstRow = 2;
  columns.rowStep = 2;
  CHECK(decoded(blocks(), columns) ==
        tabulate(3, 10, [&](uint64_t r, uint64_t c) { return all[c * 8 + 2 + 2 * r]; }));
  columns.rows = 5;
  columns.rowStep = 1;
  CHECK(decoded(blocks(), columns) ==
        tabulate(5, 10, [&](uint64_t r, uint64_t c) { return all[c * 8 + 2 + r]; }));
}

// Latent attention takes the keys' and the values' part of each head from one weight, and the keys'
// part transposed.
TEST_CASE("parts of each head are taken from one FP8 weight") {
  const std::vector<float> all = decoded(blocks(), wholeWeight("m.weight", 10, 8));
  WeightSource values = wholeWeight("m.weight", 4, 8);
  values.firstRow = 3;
  values.blocks = 2;
  values.blockStep = 5;
  CHECK(decoded(blocks(), values) == tabulate(4, 8, [&](uint64_t r, uint64_t c) {
          return all[(3 + r % 2 + 5 * (r / 2)) * 8 + c];
        }));
  WeightSource keys = wholeWeight("m.weight", 16, 3);
  keys.transposed = true;
  keys.blocks = 2;
  keys.blockStep = 5;
  CHECK(decoded(blocks(), keys) == tabulate(16, 3, [&](uint64_t r, uint64_t c) {
          return all[(c + 5 * (r / 8)) * 8 + r % 8];
        }));
}

TEST_CASE("FP8 experts fused in one tensor have blocks of their own") {
  const Codes codes = finiteCodes(2 * 5, 4);
  const std::vector<float> scales = {1, 2, 3, 4, 5, 6, 7, 8};
  const TestCheckpoint files =
      quantizedTensors(kBlocks, {byteTensor("e.up", "F8_E4M3", {2, 5, 4}, codes.values),
                                 floatTensor("e.up_scale_inv", {2, 2, 2}, scales)});
  WeightSource second = wholeWeight("e.up", 4, 4);
  second.index = 1;
  second.firstRow = 1;
  CHECK(decoded(files, second) == tabulate(4, 4, [&](uint64_t r, uint64_t c) {
          return e4m3(codes.at(5 + 1 + r, c)) * scales[4 + (r + 1) / 4 * 2 + c / 3];
        }));
}

TEST_CASE("scales may be powers of two in F8_E8M0, under DeepSeek-V4's name too") {
  nlohmann::json config = kBlocks;
  config["scale_fmt"] = "ue8m0";
  for (const std::string name : {"m.weight_scale_inv", "m.scale"}) {
    const TestCheckpoint files = quantizedTensors(
        config, {byteTensor("m.weight", "F8_E4M3", {4, 4}, finiteCodes(4, 4).values),
                 byteTensor(name, "F8_E8M0", {1, 2}, {127 + 3, 127 - 20})});
    CHECK(decoded(files, wholeWeight("m.weight", 4, 4)) ==
          tabulate(4, 4, [](uint64_t r, uint64_t c) {
            return std::ldexp(e4m3(finiteCodes(4, 4).at(r, c)), c < 3 ? 3 : -20);
          }));
  }
}

TEST_CASE("DeepSeek-V4's FP4 experts have a power of two for 32 inputs") {
  // 1, -1.5, then zeros; in the second group -6, 0.5; 40 inputs, so that this group is partial.
  std::vector<uint32_t> bytes(20, 0);
  bytes[0] = 0xb2;
  bytes[16] = 0x1f;
  TestCheckpoint files =
      quantizedTensors(kBlocks, {byteTensor("e.w1.weight", "I8", {1, 20}, bytes),
                                 byteTensor("e.w1.scale", "F8_E8M0", {1, 2}, {128, 125})});
  std::vector<float> expected(40, 0);
  expected[0] = 2;
  expected[1] = -3;
  expected[32] = -1.5f;
  expected[33] = 0.125f;
  CHECK(decoded(files, wholeWeight("e.w1.weight", 1, 40)) == expected);
  CHECK(storedTypeOf(files, wholeWeight("e.w1.weight", 1, 40)) == moec::StoredType::kBf16);
  CHECK(storedTypeOf(
            quantizedTensors(
                kBlocks, {byteTensor("e.w1.weight", "I8", {1, 32}, std::vector<uint32_t>(32, 0xb2)),
                          byteTensor("e.w1.scale", "F8_E8M0", {1, 2}, {128, 125})}),
            wholeWeight("e.w1.weight", 1, 64)) == moec::StoredType::kMxfp4);
  files.tensor("e.w1.scale").type = "U8";
  checkRefused(decodingStatus(files, wholeWeight("e.w1.weight", 1, 40)),
               {"\"e.w1.scale\": found dtype U8, expected F8_E8M0"});
}

TEST_CASE("without blocks, FP8 scales are per tensor or per row") {
  const Codes codes = finiteCodes(3, 4);
  const auto read = [&](TestTensor scales) {
    return decoded(quantizedTensors({{"quant_method", "fp8"}, {"weight_block_size", nullptr}},
                                    {byteTensor("m.weight", "F8_E4M3", {3, 4}, codes.values),
                                     scales, floatTensor("m.input_scale", {}, {9})}),
                   wholeWeight("m.weight", 3, 4));
  };
  const auto expected = [&](std::vector<float> scales) {
    return tabulate(3, 4, [&](uint64_t r, uint64_t c) { return e4m3(codes.at(r, c)) * scales[r]; });
  };
  CHECK(read(floatTensor("m.weight_scale", {}, {0.7f})) == expected({0.7f, 0.7f, 0.7f}));
  CHECK(read(bf16Tensor("m.weight_scale_inv", {1}, {0.75f})) == expected({0.75f, 0.75f, 0.75f}));
  CHECK(read(floatTensor("m.weight_scale", {3, 1}, {0.7f, 3, 5})) == expected({0.7f, 3, 5}));
}

TEST_CASE("modules that are not converted are read plainly, and scales are no weights") {
  TestCheckpoint files = blocks();
  files.shards["model.safetensors"].push_back(bf16Tensor("lm_head.weight", {1, 2}, {1.5f, -2}));
  CHECK(decoded(files, wholeWeight("lm_head.weight", 1, 2)) == std::vector<float>{1.5f, -2});
  const TemporaryDirectory directory;
  files.write(directory);
  const auto opened = moec::Checkpoint::open(directory.path());
  REQUIRE(opened.isOk());
  CHECK(opened->weightNames() == std::vector<std::string_view>{"lm_head.weight", "m.weight"});
  CHECK_FALSE(opened->has("m.weight_scale_inv"));
  CHECK(*opened->storedType(wholeWeight("m.weight", 10, 8)) == moec::StoredType::kF32);
  CHECK(opened->quantizationText() == "fp8, blocks of 4 x 3");
}

TEST_CASE("a model with FP8 experts is imported, and refused without a scale") {
  TestCheckpoint files = tinyMixtral();
  files.config["quantization_config"] = kBlocks;
  const std::string module = "model.layers.0.block_sparse_moe.experts.";
  for (const std::string name : {"0.w1", "0.w2", "0.w3", "1.w1", "1.w2", "1.w3"}) {
    TestTensor &tensor = files.tensor(module + name + ".weight");
    tensor.type = "F8_E4M3";
    tensor.bytes.resize(48, '\x38');
    const std::vector<uint64_t> blocks = {2, tensor.shape[1] == 8 ? 3u : 2u};
    files.shards["model.safetensors"].push_back(
        floatTensor(module + name + ".weight_scale_inv", blocks,
                    std::vector<float>(blocks[0] * blocks[1], 0.5f)));
  }
  CHECK(importStatus(files).message() == "");
  files.remove(module + "1.w3.weight_scale_inv");
  checkRefused(importStatus(files),
               {"model.safetensors", "\"" + module + "1.w3.weight_scale_inv\"", "scales"});
}

TEST_CASE("a model whose experts are fused in FP8 is imported under the names of its plain one") {
  TestCheckpoint files = fuseExperts(tinyMixtral());
  files.config["quantization_config"] = kBlocks;
  const std::string module = "model.layers.0.block_sparse_moe.experts.";
  for (const std::string name : {"gate_up_proj", "down_proj"}) {
    TestTensor &tensor = files.tensor(module + name);
    tensor.type = "F8_E4M3";
    tensor.bytes.resize(tensor.bytes.size() / 2, '\x38');
    const std::vector<uint64_t> blocks = {2, (tensor.shape[1] + 3) / 4, (tensor.shape[2] + 2) / 3};
    files.shards["model.safetensors"].push_back(floatTensor(
        module + name + "_scale_inv", blocks, std::vector<float>(2 * blocks[1] * blocks[2], 0.5f)));
  }
  CHECK(importStatus(files).message() == "");
  files.remove(module + "down_proj_scale_inv");
  checkRefused(importStatus(files), {"\"" + module + "down_proj_scale_inv\""});
}

TEST_CASE("an FP8 weight of several reads is decoded like a small one") {
  constexpr uint64_t kRows = 700, kCols = 2000; // 1.4 MB, read 1 MiB at a time.
  const Codes codes = finiteCodes(kRows, kCols);
  const TestCheckpoint files = quantizedTensors(
      {{"quant_method", "fp8"}}, {byteTensor("m.weight", "F8_E4M3", {kRows, kCols}, codes.values),
                                  floatTensor("m.weight_scale", {}, {0.3f})});
  CHECK(
      decoded(files, wholeWeight("m.weight", kRows, kCols)) ==
      tabulate(kRows, kCols, [&](uint64_t r, uint64_t c) { return e4m3(codes.at(r, c)) * 0.3f; }));
}

TEST_CASE("a config alone is refused for the same methods as a checkpoint") {
  const TemporaryDirectory directory;
  TestCheckpoint files = tinyMixtral();
  files.config["quantization_config"] = kBlocks;
  directory.write("config.json", files.config.dump());
  CHECK(moec::describeConfig(directory.path()).isOk());
  files.config["quantization_config"]["quant_method"] = "bitnet";
  directory.write("config.json", files.config.dump());
  checkRefused(moec::describeConfig(directory.path()).status(),
               {"config.json",
                "found \"bitnet\", expected one of auto-round, awq, compressed-tensors, fp8, gptq, "
                "intel/auto-round, modelopt, mxfp4"});
}

TEST_CASE("broken FP8 checkpoints are refused by file, tensor, found and expected") {
  checkBrokenCodes(
      {{"no scales", [](auto &c) { c.remove("m.weight_scale_inv"); },
        "model.safetensors: tensor \"m.weight\": found no tensor \"m.weight_scale_inv\""},
       {"two tensors of scales",
        [](auto &c) {
          c.shards["model.safetensors"].push_back(floatTensor("m.weight_scale", {}, {1}));
        },
        "expected one tensor of scales"},
       {"scales for other blocks",
        [](auto &c) {
          c.config["quantization_config"]["weight_block_size"] = {128, 128};
        },
        "\"m.weight_scale_inv\": found shape [3, 3], expected [1, 1] or [1, 1, 1, 1] for weights "
        "[10, 8]"},
       {"scales that are transposed",
        [](auto &c) {
          c.tensor("m.weight_scale_inv") = floatTensor("m.weight_scale_inv", {9, 1}, kScales);
        },
        "found shape [9, 1], expected [3, 3]"},
       {"scales of integers", [](auto &c) { c.tensor("m.weight_scale_inv").type = "I32"; },
        "\"m.weight_scale_inv\": found dtype I32, expected F32, F16, BF16, F8_E4M3 or F8_E8M0"},
       {"a scale that is NaN",
        [](auto &c) { c.tensor("m.weight_scale_inv").bytes.replace(16, 4, "\0\0\xc0\x7f", 4); },
        "\"m.weight_scale_inv\": found the scale NaN at row 1, column 1, expected a finite number"},
       {"a code that is NaN", [](auto &c) { c.tensor("m.weight").bytes[8 * 3 + 5] = '\x7f'; },
        "\"m.weight\": found the value NaN at row 3, column 5, expected a finite number"},
       {"codes with four dimensions",
        [](auto &c) {
          c.tensor("m.weight").shape = {1, 1, 10, 8};
        },
        "found shape [1, 1, 10, 8], expected a matrix"},
       {"codes in another format", [](auto &c) { c.tensor("m.weight").type = "F8_E5M2"; },
        "found F8_E5M2 [10, 8], expected BF16, F16 or F32"},
       {"another format of codes in the config",
        [](auto &c) { c.config["quantization_config"]["fmt"] = "e5m2"; },
        "quantization_config.fmt': found \"e5m2\", expected \"e4m3\" or \"float8_e4m3fn\""},
       {"blocks with one size",
        [](auto &c) { c.config["quantization_config"]["weight_block_size"] = {128}; },
        "config.json: key 'quantization_config.weight_block_size': found [128], expected two"},
       {"an unknown method",
        [](auto &c) { c.config["quantization_config"]["quant_method"] = "bitsandbytes"; },
        "config.json: key 'quantization_config.quant_method': found \"bitsandbytes\", expected "
        "one"},
       {"no method", [](auto &c) { c.config["quantization_config"].erase("quant_method"); },
        "quant_method"}},
      blocks, wholeWeight("m.weight", 10, 8));
}
