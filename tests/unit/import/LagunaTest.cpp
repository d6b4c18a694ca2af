// What the config of Laguna means, and its refused values.
#include "compiler/import/ImportCheckpoint.h"
#include "tests/unit/import/FamilyConfig.h"

using namespace moec::test;
using moec::AttentionDescription;
using moec::ModelDescription;

namespace {

/// Layers of 2 and 4 heads of 8 elements, the second one with a window and experts.
nlohmann::json lagunaConfig() {
  nlohmann::json config = decoderConfig("laguna", "LagunaForCausalLM");
  config.update({{"head_dim", 8},
                 {"num_attention_heads_per_layer", {2, 4}},
                 {"layer_types", {"full_attention", "sliding_attention"}},
                 {"sliding_window", 5},
                 {"num_experts", 4},
                 {"moe_intermediate_size", 3},
                 {"shared_expert_intermediate_size", 7},
                 {"moe_routed_scaling_factor", 2.5},
                 {"moe_router_logit_softcapping", 1.5}});
  return config;
}

} // namespace

TEST_CASE("heads, windows and rotations of Laguna are those of each layer") {
  const ModelDescription model = describe(lagunaConfig());
  const AttentionDescription &first = model.layers[0].attention,
                             &second = model.layers[1].attention;
  CHECK(first.heads == 2u);
  CHECK(second.heads == 4u);
  CHECK(second.query.weight.rows == 32u);
  CHECK(second.output.weight.cols == 32u);
  CHECK(second.key.weight.rows == 8u);
  CHECK(first.window == 0u);
  CHECK(second.window == 5u);
  CHECK(model.ropes[*first.rope].inverseFrequencies.size() == 2u); // Half of a head.
  CHECK(model.ropes[*second.rope].inverseFrequencies.size() == 4u);
}

TEST_CASE("Laguna's gates are softplus, one for each head or element") {
  nlohmann::json config = lagunaConfig();
  for (const nlohmann::json &perHead : {nlohmann::json(true), nlohmann::json("per-head")}) {
    config["gating"] = perHead;
    const ModelDescription model = describe(config);
    CHECK(model.layers[1].attention.gatesBySoftplus);
    CHECK(model.layers[1].attention.gate->weight.rows == 4u);
  }
  config["gating"] = "per-element";
  CHECK(describe(config).layers[1].attention.gate->weight.rows == 32u);
}

TEST_CASE("Laguna's first layer is dense, and its router has a cap and a bias") {
  const ModelDescription model = describe(lagunaConfig());
  CHECK(model.layers[0].dense);
  REQUIRE(model.layers[1].moe);
  const moec::RouterDescription &router = model.layers[1].moe->router;
  CHECK(router.scoring == moec::RouterScoring::kSigmoid);
  CHECK(router.renormalize);
  CHECK(router.scoreCap == 1.5f);
  CHECK(router.weightScale == 2.5f);
  CHECK(router.choiceBias->tensor == "model.layers.1.mlp.experts.e_score_correction_bias");
  CHECK(model.layers[1].moe->shared->network.up.weight.rows == 7u);
}

TEST_CASE("configs of Laguna that it does not compute are refused") {
  checkRefused(lagunaConfig(),
               {{"gating", false, "\"per-head\" or \"per-element\""},
                {"gating", "per-layer", "\"per-element\""},
                {"num_attention_heads_per_layer", {2, 4, 2}, "for each of 2 layers"},
                {"num_attention_heads_per_layer", nlohmann::json::array(), "for each of 2 layers"},
                {"layer_types", {"full_attention", "linear_attention"}, "sliding_attention"},
                {"mlp_layer_types", {"dense", "routed"}, "sparse"},
                {"moe_router_logit_softcapping", -1, "a number from 0"},
                {"moe_apply_router_weight_on_input", true, "false"}});
}

TEST_CASE("the tensors of Laguna have the published names and shapes") {
  const auto model = moec::importCheckpoint(std::string(MOE_TEST_DATA_DIR) + "/golden/laguna");
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  CHECK(model->description.layers.size() == 3u);
}
