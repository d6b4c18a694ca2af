// What the configs of the families with state-space layers mean, each with its refused values.
#include "compiler/import/Architecture.h"
#include "tests/unit/import/FamilyConfig.h"

using moec::ModelDescription;
using moec::WeightSource;
using namespace moec::test;

namespace {

/// Layers of width 32: a Mamba-2 mixer of 4 heads of 16 with states of 8 in 2 groups, and
/// attention.
nlohmann::json graniteConfig() {
  nlohmann::json config = decoderConfig("granitemoehybrid", "GraniteMoeHybridForCausalLM");
  const nlohmann::json own = {{"hidden_size", 32},
                              {"num_hidden_layers", 2},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 2},
                              {"intermediate_size", 6},
                              {"num_local_experts", 4},
                              {"num_experts_per_tok", 2},
                              {"shared_intermediate_size", 5},
                              {"attention_multiplier", 0.25},
                              {"position_embedding_type", "nope"},
                              {"layer_types", {"mamba", "attention"}},
                              {"mamba_n_heads", 4},
                              {"mamba_n_groups", 2},
                              {"mamba_d_state", 8},
                              {"mamba_d_head", 16},
                              {"mamba_d_conv", 4},
                              {"mamba_expand", 2}};
  config.update(own);
  return config;
}

/// The same mixers as Nemotron-H has them, and experts without a gate.
nlohmann::json nemotronConfig() {
  nlohmann::json config = decoderConfig("nemotron_h", "NemotronHForCausalLM");
  const nlohmann::json own = {{"hidden_size", 32},
                              {"num_hidden_layers", 4},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 2},
                              {"head_dim", 8},
                              {"hybrid_override_pattern", "ME*-"},
                              {"intermediate_size", 7},
                              {"mamba_num_heads", 4},
                              {"mamba_head_dim", 16},
                              {"n_groups", 2},
                              {"ssm_state_size", 8},
                              {"conv_kernel", 4},
                              {"n_routed_experts", 4},
                              {"num_experts_per_tok", 2},
                              {"moe_intermediate_size", 3},
                              {"moe_shared_expert_intermediate_size", 5},
                              {"layer_norm_epsilon", 1e-5}};
  config.update(own);
  return config;
}

/// A Mamba-1 mixer of 64 elements with a dense network, and attention with experts.
nlohmann::json jambaConfig() {
  nlohmann::json config = decoderConfig("jamba", "JambaForCausalLM");
  const nlohmann::json own = {
      {"hidden_size", 32},        {"num_hidden_layers", 2}, {"num_attention_heads", 4},
      {"num_key_value_heads", 2}, {"intermediate_size", 6}, {"num_experts", 4},
      {"num_experts_per_tok", 2}, {"attn_layer_period", 2}, {"attn_layer_offset", 1},
      {"mamba_d_state", 8},       {"mamba_d_conv", 4},      {"mamba_expand", 2},
      {"mamba_dt_rank", 3}};
  config.update(own);
  return config;
}

void checkPart(const WeightSource &part, const char *tensor, uint32_t rows, uint32_t firstRow) {
  CHECK(part.tensor == tensor);
  CHECK(part.rows == rows);
  CHECK(part.firstRow == firstRow);
}

} // namespace

TEST_CASE("a Mamba-2 mixer's parts are in one product and one convolution, the gate first") {
  const ModelDescription model = describe(graniteConfig());
  const moec::StateSpaceDescription &space = model.layers[0].stateSpace.value();
  CHECK(space.heads == 4);
  CHECK(space.keyHeads == 2);
  const char *const product = "model.layers.0.mamba.in_proj.weight";
  checkPart(space.gate.weight, product, 64, 0);
  checkPart(space.value.linear.weight, product, 64, 64);
  checkPart(space.key.linear.weight, product, 16, 128);
  checkPart(space.query.linear.weight, product, 16, 144);
  checkPart(space.step.weight, product, 4, 160);
  checkPart(space.query.taps, "model.layers.0.mamba.conv1d.weight", 16, 80);
  CHECK(space.query.tapsBias->tensor == "model.layers.0.mamba.conv1d.bias");
  CHECK(space.query.tapsBias->firstRow == 80);
  CHECK_FALSE(space.gate.bias.has_value());
}

TEST_CASE("biases of a Mamba-2 mixer are parts of one vector") {
  nlohmann::json config = graniteConfig();
  config["mamba_proj_bias"] = true;
  config["mamba_conv_bias"] = false;
  const moec::StateSpaceDescription space = describe(config).layers[0].stateSpace.value();
  CHECK(space.step.bias->tensor == "model.layers.0.mamba.in_proj.bias");
  CHECK(space.step.bias->firstRow == 160);
  CHECK(space.output.bias->tensor == "model.layers.0.mamba.out_proj.bias");
  CHECK_FALSE(space.value.tapsBias.has_value());
}

TEST_CASE("Granite 4 rotates only where the config says so") {
  nlohmann::json config = graniteConfig();
  CHECK_FALSE(describe(config).layers[1].attention.rope.has_value());
  CHECK(describe(config).layers[1].attention.scale == 0.25f);
  config["position_embedding_type"] = "rope";
  CHECK(describe(config).layers[1].attention.rope == 0u);
}

TEST_CASE("Granite 4 with wrong values is refused") {
  checkRefused(graniteConfig(),
               {{"mamba_n_heads", 5, "a divisor of mamba_expand * hidden_size, 64"},
                {"mamba_n_groups", 3, "a divisor of mamba_n_heads, 4"},
                {"mamba_d_head", 8, "\"auto\" or 16"},
                {"mamba_d_state", 4, "at least 16 for 2 groups together"},
                {"mamba_d_conv", 1, "an integer from 2 to 64"},
                {"layer_types", {"mamba"}, "one entry for each of 2 layers"},
                {"layer_types", {"mamba", "conv"}, "mamba or attention"},
                {"num_local_experts", 0, "an integer from 1"},
                {"shared_intermediate_size", 0, "an integer from 1"},
                {"position_embedding_type", "alibi", "\"rope\" or \"nope\""}});
}

TEST_CASE("a block of Nemotron-H is a mixer or a network, with one norm") {
  const ModelDescription model = describe(nemotronConfig());
  REQUIRE(model.layers.size() == 4);
  CHECK(model.layers[0].stateSpace.has_value());
  CHECK_FALSE(model.layers[0].networkNorm.has_value());
  CHECK(model.layers[0].attentionNorm->weight.tensor == "backbone.layers.0.norm.weight");
  CHECK_FALSE(model.layers[1].hasMixer);
  CHECK(model.layers[1].networkNorm->weight.tensor == "backbone.layers.1.norm.weight");
  CHECK(model.layers[2].hasMixer);
  CHECK_FALSE(model.layers[2].attention.rope.has_value());
  CHECK(model.layers[2].attention.query.weight.tensor == "backbone.layers.2.mixer.q_proj.weight");
  CHECK(model.layers[3].dense->up.weight.tensor == "backbone.layers.3.mixer.up_proj.weight");
  CHECK(model.embedding.tensor == "backbone.embeddings.weight");
}

TEST_CASE("Nemotron-H's experts have no gate") {
  const ModelDescription model = describe(nemotronConfig());
  const moec::MoeDescription &moe = model.layers[1].moe.value();
  CHECK_FALSE(moe.experts[3].hasGate());
  CHECK(moe.experts[3].gate.weight.tensor.empty());
  CHECK(moe.experts[3].down.weight.tensor == "backbone.layers.1.mixer.experts.3.down_proj.weight");
  CHECK(moe.shared->network.up.weight.rows == 5);
}

TEST_CASE("the blocks of Nemotron-H may be a list, which has precedence") {
  nlohmann::json config = nemotronConfig();
  config["layers_block_type"] = {"moe", "linear_attention", "full_attention"};
  const ModelDescription model = describe(config);
  REQUIRE(model.layers.size() == 3);
  CHECK(model.layers[0].moe.has_value());
  CHECK(model.layers[1].stateSpace.has_value());
}

TEST_CASE("Nemotron-H with wrong values is refused") {
  checkRefused(nemotronConfig(), {{"hybrid_override_pattern", "MEX", "E (experts)"},
                                  {"hybrid_override_pattern", "", "1 to 1024 blocks"},
                                  {"layers_block_type", {"moe", "conv"}, "attention, moe or mlp"},
                                  {"n_groups", 3, "a divisor of mamba_num_heads, 4"},
                                  {"ssm_state_size", 4, "at least 16 for 2 groups together"},
                                  {"moe_latent_size", 8, "null"},
                                  {"mlp_hidden_act", "silu", "relu2"}});
}

TEST_CASE("Jamba's scan takes step, key and query from the convolved value") {
  const ModelDescription model = describe(jambaConfig());
  const moec::SelectiveScanDescription &scan = model.layers[0].selectiveScan.value();
  checkPart(scan.value.linear.weight, "model.layers.0.mamba.in_proj.weight", 64, 0);
  checkPart(scan.gate.weight, "model.layers.0.mamba.in_proj.weight", 64, 64);
  checkPart(scan.stepDown.weight, "model.layers.0.mamba.x_proj.weight", 3, 0);
  checkPart(scan.key.weight, "model.layers.0.mamba.x_proj.weight", 8, 3);
  checkPart(scan.query.weight, "model.layers.0.mamba.x_proj.weight", 8, 11);
  CHECK(scan.logRate.rows == 64);
  CHECK(scan.logRate.cols == 8);
  CHECK(model.layers[0].dense.has_value());
  CHECK(model.layers[1].moe->router.linear.weight.tensor ==
        "model.layers.1.feed_forward.router.weight");
  CHECK_FALSE(model.layers[1].moe->router.renormalize);
}

TEST_CASE("the rank of Jamba's steps is a sixteenth of the width where it is auto") {
  nlohmann::json config = jambaConfig();
  config["mamba_dt_rank"] = "auto";
  CHECK(describe(config).layers[0].selectiveScan->stepDown.weight.rows == 2);
}

TEST_CASE("Jamba with wrong values is refused") {
  checkRefused(jambaConfig(), {{"attn_layer_offset", 2, "an integer from 0 to 1"},
                               {"expert_layer_period", 0, "an integer from 1"},
                               {"mamba_dt_rank", "many", "\"auto\" or an integer"},
                               {"mamba_d_conv", 1, "an integer from 2 to 64"},
                               {"num_experts", 1, "an integer from 2"},
                               {"num_experts_per_tok", 5, "at most num_experts"},
                               {"sliding_window", 8, "null"}});
}
