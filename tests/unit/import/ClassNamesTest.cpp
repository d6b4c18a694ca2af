// Checkpoints under the names of transformers' classes, as save_pretrained() writes them with
// save_original_format=False: every family whose published names differ, and fused experts.
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/import/TensorCheck.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

#include <fstream>
#include <regex>

namespace {

struct RenamedFamily {
  const char *golden;
  const char *published, *ofClass; // A regular expression and its replacement.
  const char *router, *bias;       // Names in the last layer; "" if there is none.
};

/// By transformers 5.24, models/*/modeling_*.py.
const std::vector<RenamedFamily> kFamilies = {
    {"ernie4_5_moe", "mlp\\.moe_statics", "mlp.gate.moe_statics", "mlp.gate.weight",
     "mlp.gate.moe_statics.e_score_correction_bias"},
    {"minimax_m2", "block_sparse_moe", "mlp", "mlp.gate.weight", "mlp.e_score_correction_bias"},
    {"mixtral_tied", "block_sparse_moe", "mlp", "mlp.gate.weight", ""},
    {"phimoe", "block_sparse_moe\\.(gate)?", "mlp.$1", "mlp.router.weight", ""},
    {"granitemoe", "router\\.layer", "router", "block_sparse_moe.router.weight", ""},
    {"deepseek_v3", "-", "", "mlp.gate.weight", "mlp.gate.e_score_correction_bias"},
    {"dots1", "-", "", "mlp.gate.weight", "mlp.gate.e_score_correction_bias"},
    {"hunyuan_v1_moe", "-", "", "mlp.gate.wg.weight", ""},
    {"lfm2_moe", "-", "", "feed_forward.gate.weight", "feed_forward.expert_bias"},
    {"qwen3_moe", "-", "", "mlp.gate.weight", ""},
};

nlohmann::json configOf(const std::string &directory) {
  std::ifstream file(directory + "/config.json");
  return nlohmann::json::parse(file);
}

/// A checkpoint of the description's shapes with the class's names and fused experts.
TestCheckpoint underClassNames(const std::string &directory, const RenamedFamily &family) {
  const auto published = moec::importCheckpoint(directory);
  REQUIRE_MESSAGE(published.isOk(), published.status().message());
  std::map<std::string, std::vector<uint64_t>> shapes;
  const std::regex renamed(family.published), expert("experts\\.\\d+\\.(\\w+)\\.weight$");
  for (const auto &[name, shape] : moec::tensorShapes(published->description)) {
    std::string own = std::regex_replace(name, renamed, family.ofClass);
    if (std::string(family.golden) == "phimoe")
      own = std::regex_replace(own, std::regex("mlp\\.gate"), "mlp.router");
    own = std::regex_replace(own, std::regex("input_linear\\.weight"), "experts.gate_up_proj");
    own = std::regex_replace(own, std::regex("output_linear\\.weight"), "experts.down_proj");
    std::smatch match;
    if (!std::regex_search(own, match, expert)) {
      shapes[own] = shape;
      continue;
    }
    const bool isDown = match[1] == "down_proj" || match[1] == "w2";
    if (match[1] == "up_proj" || match[1] == "w3")
      continue;
    const std::string fused =
        std::string(match.prefix()) + "experts." + (isDown ? "down_proj" : "gate_up_proj");
    std::vector<uint64_t> &size =
        shapes.try_emplace(fused, std::vector<uint64_t>{0, shape[0] * (isDown ? 1 : 2), shape[1]})
            .first->second;
    ++size[0];
  }
  TestCheckpoint files;
  files.config = configOf(directory);
  for (const auto &[name, shape] : shapes)
    files.shards["model.safetensors"].push_back(testTensor(name, "BF16", shape));
  return files;
}

} // namespace

TEST_CASE("the class's names, with fused experts, are read as the published ones:") {
  for (const RenamedFamily &family : kFamilies)
    SUBCASE(family.golden) {
      const std::string directory = std::string(MOE_TEST_DATA_DIR) + "/golden/" + family.golden;
      const TestCheckpoint files = underClassNames(directory, family);
      const TemporaryDirectory temporary;
      files.write(temporary);
      const auto imported = moec::importCheckpoint(temporary.path());
      REQUIRE_MESSAGE(imported.isOk(), imported.status().message());
      const auto &layers = imported->description.layers;
      const std::string prefix = "model.layers." + std::to_string(layers.size() - 1) + ".";
      const moec::MoeDescription &moe = *layers.back().moe;
      CHECK(moe.router.linear.weight.tensor == prefix + family.router);
      CHECK(moe.router.choiceBias.has_value() == (*family.bias != '\0'));
      if (moe.router.choiceBias)
        CHECK(moe.router.choiceBias->tensor == prefix + family.bias);
      const moec::GluDescription &expert = moe.experts[1];
      CHECK(expert.gate.weight.tensor.ends_with("experts.gate_up_proj"));
      CHECK(expert.gate.weight.index == 1u);
      CHECK(expert.gate.weight.firstRow == 0);
      CHECK(expert.up.weight.firstRow == expert.up.weight.rows);
      CHECK(expert.down.weight.tensor.ends_with("experts.down_proj"));
    }
}

TEST_CASE("a tensor under both names is refused") {
  TestCheckpoint files = tinyMixtral();
  files.shards["model.safetensors"].push_back(
      testTensor("model.layers.0.mlp.gate.weight", "BF16", {2, 8}));
  checkRefused(importStatus(files), {"found tensor \"model.layers.0.mlp.gate.weight\""});
}

TEST_CASE("one family's class names are not another's") {
  TestCheckpoint files = tinyMixtral();
  files.tensor("model.layers.0.block_sparse_moe.gate.weight").name =
      "model.layers.0.mlp.router.weight"; // PhiMoE's.
  checkRefused(importStatus(files),
               {"found no tensor \"model.layers.0.block_sparse_moe.gate.weight\""});
}
