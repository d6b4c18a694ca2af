#include "compiler/inspection/InspectCheckpoint.h"

#include "tests/unit/import/TestCodec.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace moec;

namespace {

/// 2 x 8 weights in FP8 with a block of 4 x 4 each half, and 3 in BF16.
TestCheckpoint partlyQuantized() {
  return quantizedTensors(
      {{"quant_method", "fp8"}, {"weight_block_size", {4, 4}}},
      {byteTensor("m.weight", "F8_E4M3", {2, 8}, std::vector<uint32_t>(16, 0x38)),
       floatTensor("m.weight_scale_inv", {1, 2}, {1, 2}), bf16Tensor("n.weight", {3}, {1, 2, 3})});
}

Checkpoint open(const TestCheckpoint &files, const TemporaryDirectory &directory) {
  files.write(directory);
  auto opened = Checkpoint::open(directory.path());
  REQUIRE(opened.isOk());
  return std::move(opened).value();
}

} // namespace

TEST_CASE("a checkpoint's page names the quantization and counts weights by stored type") {
  const TemporaryDirectory directory;
  const auto text = describeCheckpoint(open(partlyQuantized(), directory));
  REQUIRE(text.isOk());
  for (const char *line : {
           "  model type:   mixtral\n",
           "  quantization: fp8, blocks of 4 x 4\n",
           "  BF16                       1       3   6 B\n",
           "  F8_E4M3, scales F32        1      16  24 B\n",
           "  all                        2      19  30 B\n",
       })
    CHECK_MESSAGE(text->find(line) != std::string::npos, line, "\n", *text);
}

TEST_CASE("a checkpoint's JSON has the same figures") {
  const TemporaryDirectory directory;
  const auto text = checkpointAsJson(open(partlyQuantized(), directory));
  REQUIRE(text.isOk());
  const nlohmann::json json = nlohmann::json::parse(*text);
  CHECK(json["quantization"] == "fp8, blocks of 4 x 4");
  CHECK(json["weights"][1] == nlohmann::json({{"type", "F8_E4M3, scales F32"},
                                              {"is_quantized", true},
                                              {"tensors", 1},
                                              {"values", 16},
                                              {"bytes", 24}}));
}

TEST_CASE("a quantized weight without scales is refused") {
  TestCheckpoint files = partlyQuantized();
  files.remove("m.weight_scale_inv");
  const TemporaryDirectory directory;
  checkRefused(describeCheckpoint(open(files, directory)).status(),
               {"model.safetensors", "\"m.weight_scale_inv\""});
}
