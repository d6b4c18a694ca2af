// What the config of Mistral Small 4 means, nested and flat, and its refused values.
#include "compiler/import/ImportCheckpoint.h"
#include "tests/unit/import/FamilyConfig.h"

using namespace moec::test;
using moec::ModelDescription;

namespace {

/// Latent attention: queries of 4 + 4 elements per head, values of 5, a latent of 3.
nlohmann::json mistralConfig() {
  nlohmann::json config = decoderConfig("mistral4", "Mistral4ForCausalLM");
  config.update({{"num_key_value_heads", 2},
                 {"q_lora_rank", 6},
                 {"kv_lora_rank", 3},
                 {"qk_nope_head_dim", 4},
                 {"qk_rope_head_dim", 4},
                 {"v_head_dim", 5},
                 {"n_routed_experts", 8},
                 {"moe_intermediate_size", 3},
                 {"n_group", 4},
                 {"topk_group", 2},
                 {"first_k_dense_replace", 1},
                 {"routed_scaling_factor", 1.5},
                 {"rope_parameters",
                  {{"rope_type", "yarn"},
                   {"rope_theta", 10000.0},
                   {"factor", 4.0},
                   {"original_max_position_embeddings", 16},
                   {"llama_4_scaling_beta", 0.25}}}});
  config.erase("rope_theta");
  return config;
}

} // namespace

TEST_CASE("Mistral Small 4's queries are scaled by the whole periods before a position") {
  const ModelDescription model = describe(mistralConfig());
  const auto &scale = model.layers[1].latentAttention->queryScale;
  REQUIRE(scale);
  CHECK(scale->scale == 0.25f);
  CHECK(scale->period == 16u);
  CHECK(scale->ahead == 0u);
  CHECK(model.ropes[0].inverseFrequencies.size() == 2u);
}

TEST_CASE("Mistral Small 4's router is a softmax with groups that compete by their two largest") {
  const ModelDescription model = describe(mistralConfig());
  CHECK(model.layers[0].dense);
  REQUIRE(model.layers[1].moe);
  const moec::RouterDescription &router = model.layers[1].moe->router;
  CHECK(router.scoring == moec::RouterScoring::kSoftmaxThenTopK);
  CHECK(router.renormalize);
  CHECK(router.groups == 4u);
  CHECK(router.keptGroups == 2u);
  CHECK(router.groupScore == moert::GroupScore::kTwoLargest);
  CHECK(router.weightScale == 1.5f);
}

TEST_CASE("Mistral Small 4 inside of Mistral 3's config has the names of the whole model") {
  nlohmann::json outer = {{"model_type", "mistral3"},
                          {"architectures", {"Mistral3ForConditionalGeneration"}},
                          {"text_config", mistralConfig()}};
  CHECK(describe(outer).embedding.tensor == "language_model.model.embed_tokens.weight");
  outer["text_config"]["model_type"] = "mistral";
  const moert::Status dense = tryDescribe(outer).status();
  CHECK(std::string(dense.message()).find("\"mistral4\"") != std::string::npos);
}

TEST_CASE("configs of Mistral Small 4 that it does not compute are refused") {
  nlohmann::json noScale = mistralConfig();
  noScale["rope_parameters"].erase("llama_4_scaling_beta");
  CHECK_FALSE(tryDescribe(noScale).isOk());
  nlohmann::json otherPart = mistralConfig();
  otherPart["rope_parameters"]["partial_rotary_factor"] = 0.25;
  CHECK_FALSE(tryDescribe(otherPart).isOk());
  checkRefused(mistralConfig(), {{"n_group", 3, "a divisor of 8 experts"},
                                 {"topk_group", 5, "from 1 to 4"},
                                 {"num_key_value_heads", 1, "num_attention_heads, 2"},
                                 {"qk_rope_head_dim", 3, "even"},
                                 {"n_group", nullptr, "an integer"},
                                 {"attention_bias", true, "false"}});
}

TEST_CASE("the tensors of Mistral Small 4 have the published names and shapes") {
  const auto model = moec::importCheckpoint(std::string(MOE_TEST_DATA_DIR) + "/golden/mistral4");
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  CHECK(model->description.layers.size() == 3u);
}
