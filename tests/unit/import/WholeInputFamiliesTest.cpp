// Families with an encoder or a prefix: what their configs describe, and what is refused of them.
#include "compiler/import/TensorCheck.h"
#include "tests/unit/import/FamilyConfig.h"

#include <cmath>

using moec::LayerDescription;
using moec::ModelDescription;
using moert::AttendedRange;
using namespace moec::test;

namespace {

nlohmann::json switchConfig() {
  return {{"model_type", "switch_transformers"},
          {"architectures", {"SwitchTransformersForConditionalGeneration"}},
          {"vocab_size", 16},
          {"d_model", 8},
          {"d_kv", 6},
          {"d_ff", 5},
          {"num_heads", 2},
          {"num_layers", 4},
          {"num_decoder_layers", 2},
          {"num_sparse_encoder_layers", 2},
          {"num_sparse_decoder_layers", 1},
          {"num_experts", 4},
          {"expert_capacity", 7}};
}

nlohmann::json nllbConfig() {
  return {{"model_type", "nllb-moe"},
          {"architectures", {"NllbMoeForConditionalGeneration"}},
          {"vocab_size", 16},
          {"d_model", 8},
          {"encoder_layers", 2},
          {"encoder_ffn_dim", 5},
          {"encoder_attention_heads", 2},
          {"encoder_sparse_step", 2},
          {"decoder_layers", 3},
          {"decoder_ffn_dim", 6},
          {"decoder_attention_heads", 4},
          {"decoder_sparse_step", 3},
          {"num_experts", 4}};
}

nlohmann::json sanConfig() {
  return {{"model_type", "gptsan-japanese"},
          {"architectures", {"GPTSanJapaneseForConditionalGeneration"}},
          {"vocab_size", 16},
          {"d_model", 8},
          {"d_ff", 5},
          {"num_heads", 2},
          {"num_switch_layers", 2},
          {"max_position_embeddings", 20},
          {"num_experts", 4},
          {"expert_capacity", 3}};
}

} // namespace

TEST_CASE("Switch's encoder comes first, and every second layer of a stack is routed") {
  const ModelDescription model = describe(switchConfig());
  CHECK(model.encoderLayers == 4);
  REQUIRE(model.layers.size() == 6);
  for (size_t i = 0; i < 6; ++i)
    CHECK(model.layers[i].moe.has_value() == (i % 2 == 1));
  const LayerDescription &encoder = model.layers[1], &decoder = model.layers[5];
  CHECK(encoder.attention.range == AttendedRange::kInputAndEarlier);
  CHECK(encoder.attention.scale == 1);
  CHECK(encoder.attention.positionBias == 0);
  CHECK_FALSE(encoder.cross.has_value());
  CHECK(decoder.attention.range == AttendedRange::kEarlier);
  CHECK(decoder.attention.positionBias == 1);
  CHECK(decoder.cross->range == AttendedRange::kInput);
  CHECK_FALSE(decoder.cross->positionBias.has_value());
  CHECK(decoder.cross->key.weight.tensor == "decoder.block.1.layer.1.EncDecAttention.k.weight");
  CHECK(decoder.moe->experts[3].down.weight.tensor ==
        "decoder.block.1.layer.2.mlp.experts.expert_3.wo.weight");
  CHECK(decoder.moe->capacity->rule.kind == moert::CapacityKind::kTokens);
  CHECK(decoder.moe->capacity->rule.capacity == 7);
  CHECK(model.bosToken == 0);
  CHECK(model.logitsScale == static_cast<float>(1 / std::sqrt(8.0)));
}

TEST_CASE("Switch without sparse layers in a stack still has layer 1 routed") {
  nlohmann::json config = switchConfig();
  config["num_sparse_encoder_layers"] = 0;
  const ModelDescription model = describe(config);
  CHECK(model.layers[1].moe.has_value());
  CHECK_FALSE(model.layers[3].moe.has_value());
}

TEST_CASE("Switch with wrong values is refused") {
  checkRefused(switchConfig(), {{"num_experts", 0, "an integer from 1"},
                                {"expert_capacity", 0, "an integer from 1"},
                                {"relative_attention_num_buckets", 30, "a multiple of 4"},
                                {"relative_attention_max_distance", 16, "an integer from 17"},
                                {"feed_forward_proj", "gated-gelu", "\"relu\""},
                                {"router_dtype", "bfloat16", "\"float32\""},
                                {"decoder_start_token_id", 16, "an integer from 0 to 15"},
                                {"torch_dtype", "int8", "bfloat16, float16 or float32"}});
}

TEST_CASE("NLLB adds sines and cosines of the position after the padding token's number") {
  const ModelDescription model = describe(nllbConfig());
  CHECK(model.embeddingScale == std::sqrt(8.0f));
  CHECK(model.positions->offset == 2);
  const std::vector<float> &frequencies = model.ropes[0].inverseFrequencies;
  REQUIRE(frequencies.size() == 4);
  CHECK(frequencies[0] == 1);
  CHECK(frequencies[3] == doctest::Approx(1e-4).epsilon(1e-6));
  CHECK(model.bosToken == 2);
}

TEST_CASE("NLLB's experts have biases in tensors of their own, and weights of the kept choices") {
  const ModelDescription model = describe(nllbConfig());
  CHECK(model.encoderLayers == 2);
  const moec::MoeDescription &moe = model.layers[4].moe.value();
  const std::vector<moec::WeightSource> biases = tensorsOf(*moe.upBias);
  REQUIRE(biases.size() == 4);
  CHECK(biases[3].tensor == "decoder.layers.2.ffn.experts.expert_3.fc1.bias");
  CHECK(biases[3].cols == 6);
  CHECK(moe.router.topK == 2);
  CHECK(moe.capacity->rule.kind == moert::CapacityKind::kTokenFraction);
  CHECK(moe.capacity->rule.normalizesAfter);
  CHECK(moe.capacity->rule.weightScale == 0.8f);
}

TEST_CASE("NLLB with wrong values is refused") {
  checkRefused(nllbConfig(), {{"second_expert_policy", "sampling", "\"all\""},
                              {"moe_eval_capacity_token_fraction", 0.07, "the same in f32 and f64"},
                              {"moe_eval_capacity_token_fraction", 2, "found 2"},
                              {"d_model", 9, "an even width"},
                              {"encoder_attention_heads", 3, "a divisor of d_model 8"},
                              {"num_experts", 1, "an integer from 2"},
                              {"activation_function", "gelu", "\"relu\""}});
}

TEST_CASE("GPTSAN has a prefix, norms after each branch, and tokens that pass through") {
  const ModelDescription model = describe(sanConfig());
  CHECK(model.encoderLayers == 0);
  const LayerDescription &layer = model.layers[1];
  CHECK(layer.attention.range == AttendedRange::kInputAndEarlier);
  CHECK_FALSE(layer.attentionNorm.has_value());
  CHECK(layer.attentionOutputNorm->weight.tensor == "model.blocks.1.self_attn.norm.weight");
  CHECK(layer.moe->capacity->passes);
  CHECK(layer.moe->bypass->weight.tensor == "model.blocks.1.feed_forward.soft_bypass_mlp.weight");
  CHECK(model.finalNorm.weight.rows == 0);
  CHECK(model.beforeHead->bias.has_value());
  CHECK(model.positions->table->rows == 20);
}

TEST_CASE("GPTSAN with wrong values is refused") {
  checkRefused(sanConfig(), {{"num_ext_layers", 1, "0"},
                             {"num_heads", 3, "a divisor of d_model 8"},
                             {"expert_capacity", 0, "an integer from 1"},
                             {"num_experts", "4", "an integer from 1"},
                             {"layer_norm_epsilon", -1, "found -1"}});
}
