// What the configs of the families with several residual streams mean, each with its refused
// values.
#include "tests/unit/import/FamilyConfig.h"

#include <cmath>

using namespace moec::test;
using moec::LayerDescription;
using moec::ModelDescription;

namespace {

nlohmann::json deepSeekV4Config() {
  nlohmann::json config = decoderConfig("deepseek_v4", "DeepseekV4ForCausalLM");
  config.erase("intermediate_size");
  config.update({{"num_hidden_layers", 3},
                 {"num_attention_heads", 4},
                 {"head_dim", 12},
                 {"qk_rope_head_dim", 4},
                 {"q_lora_rank", 7},
                 {"n_routed_experts", 8},
                 {"moe_intermediate_size", 3},
                 {"compress_ratios", {0, 4, 128, 0}},
                 {"num_hash_layers", 1},
                 {"hc_mult", 2},
                 {"hc_eps", 1e-3},
                 {"hc_sinkhorn_iters", 5},
                 {"swiglu_limit", 1.5},
                 {"sliding_window", 9},
                 {"o_groups", 2},
                 {"o_lora_rank", 5},
                 {"index_n_heads", 3},
                 {"index_head_dim", 6},
                 {"index_topk", 2},
                 {"routed_scaling_factor", 2.5},
                 {"rope_scaling",
                  {{"type", "yarn"}, {"factor", 16}, {"original_max_position_embeddings", 16}}}});
  return config;
}

nlohmann::json glm5NextConfig() {
  nlohmann::json text = decoderConfig("glm5_next_text", "");
  text.erase("architectures");
  text.update(
      {{"num_hidden_layers", 4},
       {"num_key_value_heads", 2},
       {"q_lora_rank", 7},
       {"kv_lora_rank", 3},
       {"qk_nope_head_dim", 6},
       {"v_head_dim", 5},
       {"n_routed_experts", 8},
       {"moe_intermediate_size", 3},
       {"mlp_layer_types", {"dense", "sparse", "sparse", "sparse"}},
       {"rms_norm_eps", 1e-4},
       {"hc_mult", 3},
       {"swiglu_limit", 2.0},
       {"layer_types",
        {"linear_attention", "full_attention", "full_attention", "linear_attention"}},
       {"indexer_types", {"full", "full", "shared", "full"}},
       {"index_kpool", 4},
       {"index_topk", 8},
       {"index_n_heads", 2},
       {"index_head_dim", 6},
       {"linear_attn_config", {{"num_heads", 3}, {"head_dim", 8}, {"gate_lower_bound", -4.0}}}});
  return {{"model_type", "glm5_next"},
          {"architectures", {"Glm5NextForConditionalGeneration"}},
          {"text_config", text}};
}

nlohmann::json qwen4Config() {
  nlohmann::json config = decoderConfig("qwen4_exp_text", "Qwen4ExpForCausalLM");
  config.erase("intermediate_size");
  config.update({{"num_hidden_layers", 4},
                 {"head_dim", 4},
                 {"partial_rotary_factor", 0.5},
                 {"num_experts", 8},
                 {"moe_intermediate_size", 3},
                 {"shared_expert_intermediate_size", 5},
                 {"linear_num_key_heads", 2},
                 {"linear_num_value_heads", 4},
                 {"linear_key_head_dim", 8},
                 {"linear_value_head_dim", 8},
                 {"hc_count", 3},
                 {"hc_lowrank", 5},
                 {"output_gate_type", "sigmoid"},
                 {"indexer_n_heads", 2},
                 {"indexer_kv_heads", 1},
                 {"indexer_head_dim", 6},
                 {"indexer_budget", 8},
                 {"indexer_compress_ratio", 4},
                 {"ple_layer_ids", {3, 1}},
                 {"ple_embed_dim", 12},
                 {"ngram_size", 3},
                 {"heads_per_ngram", 2},
                 {"ngram_vocab_size_base", 60},
                 {"make_ngram_vocab_size_divisible_by", 8},
                 {"split_ngram_parts", 4}});
  return config;
}

void checkTextRefused(const std::vector<BrokenValue> &rows) {
  for (const BrokenValue &row : rows) {
    CAPTURE(row.key);
    nlohmann::json config = glm5NextConfig();
    config["text_config"][row.key] = row.value;
    const std::string message(tryDescribe(config).status().message());
    CAPTURE(message);
    CHECK(message.find(std::string("text_config.") + row.key + "'") != std::string::npos);
    CHECK(message.find(row.expected) != std::string::npos);
  }
}

} // namespace

TEST_CASE("DeepSeek-V4 attends to a window, and to pools that an indexer chooses or to all") {
  const ModelDescription model = describe(deepSeekV4Config());
  CHECK(model.embedding.tensor == "embed.weight");
  CHECK(model.head.weight.tensor == "head.weight");
  REQUIRE(model.ropes.size() == 2);
  CHECK(model.ropes[0].inverseFrequencies.size() == 2);
  CHECK(model.ropes[0].inverseFrequencies[1] == doctest::Approx(0.01));
  CHECK(model.ropes[1].inverseFrequencies[1] < 1 / std::sqrt(160000.0));
  CHECK(model.ropes[1].attentionFactor == 1);
  const auto attentionOf = [&](size_t layer) { return *model.layers[layer].compressedAttention; };
  CHECK_FALSE(attentionOf(0).pool.has_value());
  CHECK(attentionOf(0).rope == 0);
  CHECK(attentionOf(0).window == 9);
  CHECK(attentionOf(0).firstRotated == 8);
  CHECK(attentionOf(0).outputDown.rows == 10);
  CHECK(attentionOf(0).outputDown.cols == 24);
  CHECK(attentionOf(1).rope == 1);
  CHECK(attentionOf(1).pool->tokens == 4);
  CHECK(attentionOf(1).pool->overlapping);
  CHECK(attentionOf(1).pool->bias.cols == 4 * 24);
  CHECK(attentionOf(1).pooled.weight.rows == 24);
  CHECK(attentionOf(1).indexer->most == 2);
  CHECK(attentionOf(1).indexer->pool->norm->weight.cols == 6);
  CHECK(attentionOf(1).indexer->firstRotated == 2);
  CHECK(attentionOf(2).pool->tokens == 128);
  CHECK_FALSE(attentionOf(2).pool->overlapping);
  CHECK_FALSE(attentionOf(2).indexer.has_value());
}

TEST_CASE("DeepSeek-V4's first layers have experts by the token, and all mix streams") {
  nlohmann::json config = deepSeekV4Config();
  const ModelDescription model = describe(config);
  CHECK(model.streams->count == 2);
  CHECK(model.streams->iterations == 5);
  CHECK(model.streams->epsilon == 1e-3f);
  CHECK(model.streams->head->products.rows == 2);
  CHECK(model.layers[1].attentionStreams->products.tensor == "layers.1.hc_attn_fn");
  CHECK(model.layers[1].networkStreams->products.rows == 8);
  CHECK(model.layers[1].networkStreams->products.cols == 16);
  const moec::RouterDescription &first = model.layers[0].moe->router;
  CHECK(first.expertsOfTokens->tensor == "layers.0.ffn.gate.tid2eid");
  CHECK(first.expertsOfTokens->integers);
  CHECK_FALSE(first.choiceBias.has_value());
  const moec::MoeDescription &other = *model.layers[1].moe;
  CHECK_FALSE(other.router.expertsOfTokens.has_value());
  CHECK(other.router.choiceBias->tensor == "layers.1.ffn.gate.bias");
  CHECK(other.router.scoring == moec::RouterScoring::kSqrtSoftplus);
  CHECK(other.router.renormalize);
  CHECK(other.router.weightScale == 2.5f);
  CHECK(other.experts[0].activation ==
        moert::GluActivation{moert::Activation::kClampedSilu, 1, 1.5f});
  CHECK(other.shared->network.down.weight.tensor == "layers.1.ffn.shared_experts.w2.weight");
  config["mlp_layer_types"] = {"moe", "hash_moe", "moe"};
  CHECK(describe(config).layers[1].moe->router.expertsOfTokens.has_value());
  checkRefused(deepSeekV4Config(),
               {{"compress_ratios", {0, 4}, "one entry for each of 3 layers"},
                {"compress_ratios", {0, 8, 4}, "0, 4 or 128"},
                {"layer_types", {"full_attention", "full_attention", "full_attention"}, "sliding"},
                {"num_key_value_heads", 2, "1: all heads"},
                {"o_groups", 3, "a divisor of 4 heads"},
                {"qk_rope_head_dim", 5, "an even number"},
                {"qk_rope_head_dim", 10, "at most index_head_dim, 6"},
                {"swiglu_limit", 0, "a number"},
                {"hc_mult", 17, "an integer from 1 to 16"},
                {"hc_sinkhorn_iters", 0, "an integer from 1"},
                {"n_shared_experts", 2, "1"},
                {"norm_topk_prob", false, "true"},
                {"scoring_func", "sigmoid", "sqrtsoftplus"},
                {"tie_word_embeddings", true, "false"},
                {"mlp_layer_types", {"moe", "dense", "moe"}, "hash_moe or moe"},
                {"rope_scaling", {{"main", {}}}, "the parameters of YaRN alone"}});
}

TEST_CASE("DeepSeek-V4's layers and pools have the names of transformers too") {
  nlohmann::json config = deepSeekV4Config();
  config.erase("compress_ratios");
  config.erase("qk_rope_head_dim");
  config.update(
      {{"partial_rotary_factor", 0.5}, {"compress_rates", {{"heavily_compressed_attention", 16}}}});
  const ModelDescription model = describe(config);
  CHECK(model.layers[0].compressedAttention->pool->tokens == 16);
  CHECK(model.layers[1].compressedAttention->pool->tokens == 16);
  CHECK(model.layers[2].compressedAttention->firstRotated == 6);
  config["layer_types"] = {"sliding_attention", "compressed_sparse_attention", "sliding_attention"};
  CHECK(describe(config).layers[1].compressedAttention->pool->tokens == 4);
}

TEST_CASE("GLM-5.3 chooses pools in latent attention without rotation, between delta attentions") {
  nlohmann::json config = glm5NextConfig();
  const ModelDescription model = describe(config);
  CHECK(model.ropes.empty());
  CHECK(model.streams->count == 3);
  CHECK_FALSE(model.streams->head.has_value());
  const LayerDescription &layer = model.layers[1];
  const moec::LatentAttentionDescription &attention = layer.latentAttention.value();
  CHECK(layer.attentionStreams->products.tensor == "model.language_model.layers.1.hc_attn_fn");
  CHECK(attention.key.weight.rows == 0);
  CHECK(attention.latentNorm.epsilon == 1e-4f);
  CHECK_FALSE(attention.rope.has_value());
  CHECK(attention.scale == static_cast<float>(1 / std::sqrt(6.0)));
  CHECK(attention.indexer->most == 2);
  CHECK(attention.indexer->pool->tokens == 4);
  CHECK(attention.indexer->pool->bias.cols == 24);
  CHECK_FALSE(attention.indexer->pool->norm.has_value());
  CHECK_FALSE(attention.indexer->rope.has_value());
  CHECK(model.layers[2].latentAttention->sharesChoice);
  CHECK(model.layers[0].deltaNet->heads == 3);
  CHECK(model.layers[0].deltaNet->decayBound == -4.0f);
  CHECK(model.layers[0].dense->activation.kind == moert::Activation::kClampedSilu);
  config["text_config"]["linear_attn_config"]["safe_gate"] = false;
  config["text_config"]["linear_attn_config"]["gate_lower_bound"] = nullptr;
  CHECK_FALSE(describe(config).layers[0].deltaNet->decayBound.has_value());
  checkTextRefused({{"qk_rope_head_dim", 4, "an integer from 0 to 0"},
                    {"index_topk", 9, "a multiple of index_kpool, 4"},
                    {"index_kpool", 0, "an integer from 1"},
                    {"index_kpool_always_select_tail", false, "true"},
                    {"indexer_types", {"full", "shared", "full", "full"}, "a first layer"},
                    {"q_lora_rank", nullptr, "an integer"},
                    {"num_key_value_heads", 1, "num_attention_heads, 2"},
                    {"swiglu_limit", -1, "a number"},
                    {"layer_types", {"full_attention"}, "one entry for each of 4 layers"},
                    {"first_k_dense_replace", 2, "the dense layers of mlp_layer_types"},
                    {"hc_eps", -1, "a number"},
                    {"linear_lower_bound", 1, "a number"}});
}

TEST_CASE("Qwen3.8 gates streams, chooses blocks and adds n-grams before some layers") {
  const ModelDescription model = describe(qwen4Config());
  CHECK(model.finalNorm.weight.rows == 0);
  CHECK(model.streams->count == 3);
  CHECK_FALSE(model.streams->headGate->inject.has_value());
  const LayerDescription &layer = model.layers[3];
  CHECK_FALSE(layer.attentionNorm.has_value());
  CHECK(layer.attentionGate->norm.weight.addsOne);
  CHECK(layer.attentionGate->norm.weight.cols == 24);
  CHECK(layer.attentionGate->down.weight.rows == 5);
  CHECK(layer.networkGate->inject->weight.rows == 3);
  const moec::IndexerDescription &indexer = *layer.attention.indexer;
  CHECK(indexer.most == 2);
  CHECK(indexer.pool->tokens == 4);
  CHECK_FALSE(indexer.pool->gate.has_value());
  CHECK_FALSE(indexer.weights.has_value());
  CHECK(indexer.key.weight.firstRow == 12);
  CHECK(model.layers[0].deltaNet->gatesBySigmoid);
  CHECK(layer.moe->shared->gate.has_value());
  REQUIRE(model.layers[2].ngrams.has_value());
  CHECK_FALSE(model.layers[1].ngrams.has_value());
  // Primes from 60 on: 61, 67, 71, 73 for layer 1, then 79, 83, 89, 97 for layer 3.
  CHECK(model.layers[0].ngrams->table.rows == 272);
  CHECK(model.layers[2].ngrams->table.rows == 352);
  CHECK(model.layers[2].ngrams->number == 1);
  CHECK(model.layers[2].ngrams->table.cols == 3);
  CHECK(model.layers[2].ngrams->table.shard(3).tensor ==
        "model.layers.2.ple.ple_embedding.ngram_embedding.shard_3.weight");
  CHECK(model.layers[2].ngrams->table.shard(3).rows == 88);
  CHECK(model.layers[2].ngrams->endToken == 2);
  checkRefused(qwen4Config(), {{"hc_count", 1, "an integer from 2 to 16"},
                               {"output_gate_type", "relu", "sigmoid or silu"},
                               {"indexer_n_heads", nullptr, "an integer from 1"},
                               {"indexer_kv_heads", 2, "an integer from 1 to 1"},
                               {"indexer_budget", 9, "a multiple of indexer_compress_ratio, 4"},
                               {"indexer_head_dim", 1, "an integer from 2"},
                               {"ple_layer_ids", {5}, "1 to 4"},
                               {"ple_layer_ids", {4}, "layers of linear_attention"},
                               {"ple_embed_dim", 13, "a multiple of 4 heads"},
                               {"split_ngram_parts", 5, "a divisor of 272 rows"},
                               {"eos_token_id", nullptr, "a token"},
                               {"mlp_only_layers", {1}, "an empty list"}});
}
