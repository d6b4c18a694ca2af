// MXFP4 checkpoints as gpt-oss publishes them.
#include "runtime/base/HalfFloat.h"
#include "tests/unit/import/TestCodec.h"

#include <doctest/doctest.h>

#include <cmath>

using moec::WeightSource;

namespace {

constexpr uint64_t kExperts = 2, kRows = 3, kGroups = 2, kCols = kGroups * 32;

const std::vector<uint32_t> kBytes = someCodes(kExperts * kRows, kGroups * 16, 256).values;
const std::vector<uint32_t> kScales = {127, 120, 0, 130, 128, 127, 100, 127, 131, 129, 1, 127};

TestCheckpoint fused() {
  return quantizedTensors(
      {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"model.layers.*.self_attn"}}},
      {byteTensor("e.up_blocks", "U8", {kExperts, kRows, kGroups, 16}, kBytes),
       byteTensor("e.up_scales", "U8", {kExperts, kRows, kGroups}, kScales)});
}

/// By the formats' definitions: E2M1 is (-1)^s * 2^(e - 1) * (1 + m / 2), or m / 2 if e is 0.
float value(uint64_t expert, uint64_t row, uint64_t col) {
  const uint64_t line = expert * kRows + row;
  const uint32_t byte = kBytes[line * kGroups * 16 + col / 2];
  const uint32_t code = col % 2 == 0 ? byte & 15 : byte >> 4;
  const int exponent = static_cast<int>(code >> 1 & 3);
  const float half = static_cast<float>(code & 1) / 2;
  const float magnitude = exponent == 0 ? half : std::ldexp(1 + half, exponent - 1);
  const int scale = static_cast<int>(kScales[line * kGroups + col / 32]) - 127;
  return std::ldexp(code & 8 ? -magnitude : magnitude, scale);
}

/// As a family reads it: one expert of [E, inputs, outputs].
WeightSource expert(uint32_t index) {
  WeightSource source = wholeWeight("e.up", kRows, kCols);
  source.index = index;
  source.transposed = true;
  return source;
}

} // namespace

TEST_CASE("MXFP4 values are codes of four bits, low half first, times a power of two") {
  for (const uint32_t e : {0u, 1u})
    CHECK(decoded(fused(), expert(e)) ==
          tabulate(kRows, kCols, [&](uint64_t r, uint64_t c) { return value(e, r, c); }));
}

TEST_CASE("the first bytes of an MXFP4 weight by hand") {
  std::vector<uint32_t> bytes(16, 0);
  bytes[0] = 0x2f; // -6, then 1.
  bytes[1] = 0x91; // 0.5, then -0.5.
  const TestCheckpoint files = quantizedTensors({{"quant_method", "mxfp4"}},
                                                {byteTensor("w_blocks", "U8", {1, 1, 16}, bytes),
                                                 byteTensor("w_scales", "U8", {1, 1}, {129})});
  WeightSource source = wholeWeight("w", 1, 32);
  source.transposed = true;
  std::vector<float> expected(32, 0);
  expected[0] = -24;
  expected[1] = 4;
  expected[2] = 2;
  expected[3] = -2;
  CHECK(decoded(files, source) == expected);
}

TEST_CASE(
    "BF16 holds every MXFP4 value, from the smallest scale to the largest with finite codes") {
  std::vector<uint32_t> codes;
  for (uint32_t code = 0; code < 16; ++code)
    codes.push_back(code << 4 | code);
  for (const uint32_t scale : {0u, 1u, 127u, 252u}) {
    const TestCheckpoint files = quantizedTensors({{"quant_method", "mxfp4"}},
                                                  {byteTensor("w_blocks", "U8", {1, 1, 16}, codes),
                                                   byteTensor("w_scales", "U8", {1, 1}, {scale})});
    WeightSource source = wholeWeight("w", 1, 32);
    source.transposed = true;
    const std::vector<float> values = decoded(files, source);
    CHECK(values[2] == std::ldexp(0.5f, static_cast<int>(scale) - 127));
    for (const float value : values)
      CHECK(moert::bf16ToF32(moert::f32ToBf16(value)) == value);
  }
  WeightSource inputs = wholeWeight("e.up", kCols, kRows);
  inputs.index = 0;
  CHECK(storedTypeOf(fused(), inputs) == moec::StoredType::kBf16);
}

/// A row's codes as they are stored, then its scales.
static std::vector<uint8_t> storedRow(uint64_t row) {
  std::vector<uint8_t> bytes;
  for (uint64_t i = 0; i < kGroups * 16; ++i)
    bytes.push_back(static_cast<uint8_t>(kBytes[row * kGroups * 16 + i]));
  for (uint64_t i = 0; i < kGroups; ++i)
    bytes.push_back(static_cast<uint8_t>(kScales[row * kGroups + i]));
  return bytes;
}

TEST_CASE("rows of whole MXFP4 groups are read as they are stored, interleaved ones too") {
  const TemporaryDirectory directory;
  fused().write(directory);
  const auto opened = moec::Checkpoint::open(directory.path());
  REQUIRE(opened.isOk());
  const auto check = [&](const WeightSource &source, std::vector<uint64_t> rows) {
    CHECK(*opened->storedType(source) == moec::StoredType::kMxfp4);
    std::vector<std::byte> found(rows.size() * (kGroups * 16 + kGroups));
    const moert::Status status =
        opened->readStoredRows(source, 0, static_cast<uint32_t>(rows.size()), found);
    CHECK_MESSAGE(status.isOk(), status.message());
    std::vector<std::byte> expected;
    for (const uint64_t row : rows)
      for (const uint8_t byte : storedRow(row))
        expected.push_back(std::byte(byte));
    CHECK(found == expected);
  };
  check(expert(1), {3, 4, 5});
  WeightSource odd = expert(1);
  odd.rowStep = 2;
  odd.rows = 2;
  check(odd, {3, 5});
}

TEST_CASE("stored MXFP4 rows with a scale or value that is not finite are refused by name") {
  const auto refusal = [](TestCheckpoint files) {
    const TemporaryDirectory directory;
    files.write(directory);
    const auto opened = moec::Checkpoint::open(directory.path());
    REQUIRE(opened.isOk());
    std::vector<std::byte> rows(3 * (kGroups * 16 + kGroups));
    return std::string(opened->readStoredRows(expert(1), 0, 3, rows).message());
  };
  TestCheckpoint files = fused();
  files.tensor("e.up_scales").bytes[9] = '\xff';
  CHECK(refusal(files).find("model.safetensors: tensor \"e.up_scales\": found the scale NaN at row "
                            "1, column 1, expected a finite number") != std::string::npos);
  files = fused();
  files.tensor("e.up_scales").bytes[7] = '\xfd';
  for (int i = 0; i < 16; ++i)
    files.tensor("e.up_blocks").bytes[3 * 32 + 16 + i] = '\x55'; // 3 * 2^126 is finite.
  CHECK(refusal(files) == "");
  files.tensor("e.up_blocks").bytes[3 * 32 + 31] = '\xf5'; // -6 * 2^126 is not.
  CHECK(refusal(files).find("\"e.up_blocks\": found the value infinity at row 0 in group 1, "
                            "expected a finite number") != std::string::npos);
}

TEST_CASE(
    "interleaved rows of an MXFP4 expert are read by step, and its columns as they are named") {
  WeightSource odd = expert(1);
  odd.firstRow = 0;
  odd.rowStep = 2;
  odd.rows = 2;
  CHECK(decoded(fused(), odd) ==
        tabulate(2, kCols, [](uint64_t r, uint64_t c) { return value(1, 2 * r, c); }));
  WeightSource inputs = wholeWeight("e.up", 5, kRows);
  inputs.index = 1;
  inputs.firstRow = 30;
  CHECK(decoded(fused(), inputs) ==
        tabulate(5, kRows, [](uint64_t r, uint64_t c) { return value(1, c, 30 + r); }));
}

TEST_CASE("broken MXFP4 checkpoints are refused by file, tensor, found and expected") {
  checkBrokenCodes(
      {{"no scales", [](auto &c) { c.remove("e.up_scales"); },
        "model.safetensors: tensor \"e.up_blocks\": found no tensor \"e.up_scales\""},
       {"scales of fewer groups",
        [](auto &c) {
          c.tensor("e.up_scales").shape = {kExperts, kGroups, kRows};
        },
        "\"e.up_scales\": found shape [2, 2, 3], expected [2, 3, 2] for groups of 32"},
       {"scales of another type", [](auto &c) { c.tensor("e.up_scales").type = "I8"; },
        "\"e.up_scales\": found dtype I8, expected U8 or F8_E8M0"},
       {"blocks of another type", [](auto &c) { c.tensor("e.up_blocks").type = "I8"; },
        "\"e.up_blocks\": found dtype I8, expected U8"},
       {"groups of 16 inputs",
        [](auto &c) {
          c.tensor("e.up_blocks").shape = {kExperts, kRows, 2 * kGroups, 8};
        },
        "found shape [2, 3, 4, 8], expected [experts, outputs, groups, 16]"},
       {"a scale that is NaN", [](auto &c) { c.tensor("e.up_scales").bytes[9] = '\xff'; },
        "\"e.up_scales\": found the scale NaN at row 1, column 1"},
       {"a value beyond f32",
        [](auto &c) {
          c.tensor("e.up_scales").bytes[6] = '\xfe';
          c.tensor("e.up_blocks").bytes[3 * 32] = '\x07';
        },
        "\"e.up_blocks\": found the value infinity at row 0, column 0"},
       {"the plain tensor beside its codes",
        [](auto &c) {
          c.shards["model.safetensors"].push_back(testTensor("e.up", "BF16", {2, 64, 3}));
        },
        "expected one of them"}},
      fused, expert(1));
}
