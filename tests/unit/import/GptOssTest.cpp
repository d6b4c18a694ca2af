// What gpt-oss's config means, and the values that are refused.
#include "tests/unit/import/FamilyConfig.h"

using namespace moec::test;
using moec::LayerDescription;
using moec::ModelDescription;

namespace {

nlohmann::json gptOssConfig() {
  nlohmann::json config = decoderConfig("gpt_oss", "GptOssForCausalLM");
  config["head_dim"] = 4;
  config.update({{"num_local_experts", 4},
                 {"experts_per_token", 2},
                 {"sliding_window", 8},
                 {"rope_scaling",
                  {{"rope_type", "yarn"},
                   {"factor", 32.0},
                   {"beta_fast", 32.0},
                   {"beta_slow", 1.0},
                   {"truncate", false},
                   {"original_max_position_embeddings", 512}}}});
  return config;
}

} // namespace

TEST_CASE("gpt-oss has sinks, biases, and a window in every other layer") {
  const ModelDescription model = describe(gptOssConfig());
  for (const LayerDescription &layer : model.layers) {
    REQUIRE(layer.attention.sinks);
    CHECK(layer.attention.sinks->cols == 2);
    for (const moec::LinearDescription *linear :
         {&layer.attention.query, &layer.attention.key, &layer.attention.value,
          &layer.attention.output, &layer.moe->router.linear})
      CHECK(linear->bias);
    CHECK(layer.moe->router.renormalize);
    CHECK(layer.moe->router.topK == 2);
  }
  CHECK(model.layers[0].attention.window == 8);
  CHECK(model.layers[1].attention.window == 0);
  CHECK(model.ropes[0].attentionFactor == doctest::Approx(1.3465736));
  nlohmann::json config = gptOssConfig();
  config["layer_types"] = {"full_attention", "sliding_attention"};
  config["attention_bias"] = false;
  const ModelDescription other = describe(config);
  CHECK(other.layers[0].attention.window == 0);
  CHECK(other.layers[1].attention.window == 8);
  CHECK_FALSE(other.layers[0].attention.query.bias);
  CHECK_FALSE(other.layers[0].attention.output.bias);
}

TEST_CASE("gpt-oss's experts are fused with gate and up interleaved, and so are their biases") {
  const ModelDescription model = describe(gptOssConfig());
  const moec::MoeDescription &moe = *model.layers[1].moe;
  REQUIRE(moe.experts.size() == 4);
  const moec::WeightSource &up = moe.experts[3].up.weight;
  CHECK(up.tensor == "model.layers.1.mlp.experts.gate_up_proj");
  CHECK(up.rows == 6);
  CHECK(up.cols == 8);
  CHECK(up.index == 3);
  CHECK(up.firstRow == 1);
  CHECK(up.rowStep == 2);
  CHECK(up.transposed);
  CHECK(moe.experts[3].gate.weight.firstRow == 0);
  CHECK(moe.experts[3].down.weight.rows == 8);
  CHECK(moe.experts[3].down.weight.transposed);
  CHECK(moe.experts[0].activation ==
        moert::GluActivation{moert::Activation::kClampedSwiglu, 1.702f, 7});
  CHECK(moe.upBias->tensor == "model.layers.1.mlp.experts.gate_up_proj_bias");
  CHECK(moe.upBias->rows == 1);
  CHECK(moe.upBias->cols == 4 * 6);
  CHECK(moe.upBias->firstRow == 1);
  CHECK(moe.upBias->rowStep == 2);
  CHECK(moe.upBias->stackedVectors == 4);
  CHECK(moe.gateBias->firstRow == 0);
  CHECK(moe.downBias->cols == 4 * 8);
  nlohmann::json config = gptOssConfig();
  config["swiglu_alpha"] = 1.5;
  config["swiglu_limit"] = 3;
  CHECK(describe(config).layers[0].moe->experts[0].activation ==
        moert::GluActivation{moert::Activation::kClampedSwiglu, 1.5f, 3});
}

TEST_CASE("gpt-oss with wrong values is refused") {
  checkRefused(gptOssConfig(), {{"layer_types", {"full_attention"}, "each of 2 layers"},
                                {"layer_types",
                                 {"full_attention", "chunked_attention"},
                                 "full_attention or sliding_attention"},
                                {"sliding_window", nullptr, "expected"},
                                {"num_experts_per_tok", 5, "the same as experts_per_token"},
                                {"rope_scaling", 3, "an object"},
                                {"swiglu_limit", 0, "expected"},
                                {"swiglu_alpha", -1, "expected"},
                                {"hidden_act", "gelu", "silu"},
                                {"mlp_bias", true, "false"}});
  nlohmann::json config = gptOssConfig();
  config.erase("experts_per_token");
  checkRefused(config, {{"num_experts_per_tok", 5, "at most num_local_experts"}});
  config["intermediate_size"] = 1 << 24;
  checkRefused(config, {{"num_local_experts", 65536, "at most 1073741824 biases of experts"}});
}
