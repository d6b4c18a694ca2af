"""Models of their published dimensions: counts of parameters from config.json alone, and, with --full, checkpoints of
random weights with a few layers of them, which are compiled and run within their memory.

A config is that of the family's golden case with the published numbers in place of the small ones. The counts are sums
over the shapes of the published checkpoints.
"""
import json
import subprocess

import cgroups
from support import DATA, DONE, FULL, ROOT, E2eTest, program

GENERATOR = ROOT / "build/release/tests/random_checkpoint"
COMPILE_LIMIT = 2 << 30

LATENT = dict(kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)
# Name: golden case; published values of config.json; billions of parameters: all, of experts, active for a token.
PUBLISHED = {
    "Mixtral-8x7B": ("mixtral", dict(
        num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336,
        vocab_size=32000), (46.703, 45.097, 12.749)),
    "Qwen1.5-MoE-A2.7B": ("qwen2_moe", dict(
        num_hidden_layers=24, hidden_size=2048, num_attention_heads=16, num_key_value_heads=16, intermediate_size=5632,
        moe_intermediate_size=1408, shared_expert_intermediate_size=5632, num_experts=60, num_experts_per_tok=4,
        vocab_size=151936), (14.316, 12.457, 2.378)),
    "Qwen3-30B-A3B": ("qwen3_moe", dict(
        num_hidden_layers=48, hidden_size=2048, num_attention_heads=32, num_key_value_heads=4, head_dim=128,
        intermediate_size=6144, moe_intermediate_size=768, num_experts=128, num_experts_per_tok=8, vocab_size=151936),
        (30.532, 28.991, 3.042)),
    "OLMoE-1B-7B": ("olmoe", dict(
        num_hidden_layers=16, hidden_size=2048, num_attention_heads=16, num_key_value_heads=16, intermediate_size=1024,
        num_experts=64, num_experts_per_tok=8, vocab_size=50304), (6.919, 6.442, 1.179)),
    "granite-3.0-1b-a400m": ("granitemoe", dict(
        num_hidden_layers=24, hidden_size=1024, num_attention_heads=16, num_key_value_heads=8, intermediate_size=512,
        num_local_experts=32, num_experts_per_tok=8, vocab_size=49155), (1.335, 1.208, 0.429)),
    "DeepSeek-V2-Lite": ("deepseek_v2_lite", dict(
        LATENT, num_hidden_layers=27, hidden_size=2048, num_attention_heads=16, num_key_value_heads=16,
        intermediate_size=10944, moe_intermediate_size=1408, n_routed_experts=64, n_shared_experts=2,
        num_experts_per_tok=6, vocab_size=102400), (15.706, 14.395, 2.451)),
    "DeepSeek-V3": ("deepseek_v3", dict(
        LATENT, q_lora_rank=1536, num_hidden_layers=61, hidden_size=7168, num_attention_heads=128,
        num_key_value_heads=128, intermediate_size=18432, moe_intermediate_size=2048, n_routed_experts=256,
        n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=3, n_group=8, topk_group=4, vocab_size=129280),
        (671.026, 653.909, 36.626)),
    "GLM-4.5-Air": ("glm4_moe", dict(
        num_hidden_layers=46, hidden_size=4096, num_attention_heads=96, num_key_value_heads=8, head_dim=128,
        intermediate_size=10944, moe_intermediate_size=1408, n_routed_experts=128, n_shared_experts=1, n_group=1,
        topk_group=1, num_experts_per_tok=8, vocab_size=151552), (106.852, 99.657, 12.803)),
    "GLM-4.7-Flash": ("glm4_moe_lite", dict(
        num_hidden_layers=47, hidden_size=2048, num_attention_heads=20, num_key_value_heads=20, q_lora_rank=768,
        kv_lora_rank=512, qk_nope_head_dim=192, qk_rope_head_dim=64, v_head_dim=256, intermediate_size=10240,
        moe_intermediate_size=1536, n_routed_experts=64, n_shared_experts=1, num_experts_per_tok=4, vocab_size=154880),
        (29.943, 27.783, 3.580)),
    "GLM-5.2": ("glm_moe_dsa", dict(
        num_hidden_layers=78, indexer_types=["full"] * 78, hidden_size=6144, num_attention_heads=64,
        num_key_value_heads=64, q_lora_rank=2048, kv_lora_rank=512, qk_nope_head_dim=192, qk_rope_head_dim=64,
        v_head_dim=256, index_n_heads=32, index_head_dim=128, index_topk=2048, intermediate_size=12288,
        moe_intermediate_size=2048, n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8,
        first_k_dense_replace=3, vocab_size=154880), (743.911, 724.776, 40.833)),
    "DeepSeek-V3.2": ("deepseek_v32", dict(
        LATENT, q_lora_rank=1536, num_hidden_layers=61, hidden_size=7168, num_attention_heads=128,
        num_key_value_heads=128, index_n_heads=64, index_head_dim=128, index_topk=2048, intermediate_size=18432,
        moe_intermediate_size=2048, n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8,
        first_k_dense_replace=3, n_group=8, topk_group=4, vocab_size=129280), (671.877, 653.909, 37.478)),
    "DeepSeek-V4-Flash": ("deepseek_v4", dict(
        num_hidden_layers=43, compress_ratios=[0, 0] + [4, 128] * 20 + [4, 0], num_hash_layers=3, hidden_size=4096,
        num_attention_heads=64, head_dim=512, qk_rope_head_dim=64, q_lora_rank=1024, o_groups=8, o_lora_rank=1024,
        sliding_window=128, index_n_heads=64, index_head_dim=128, index_topk=512, moe_intermediate_size=2048,
        n_routed_experts=256, num_experts_per_tok=6, vocab_size=129280), (284.332, 277.025, 13.270)),
    "GLM-5.3-Flash": ("glm5_next", dict(
        num_hidden_layers=45, layer_types=None, mlp_layer_types=["dense"] * 3 + ["sparse"] * 42, first_k_dense_replace=3,
        indexer_types=["full"] * 45, hidden_size=4096, num_attention_heads=64, num_key_value_heads=64, q_lora_rank=1536,
        kv_lora_rank=512, qk_nope_head_dim=256, v_head_dim=256, index_n_heads=32, index_head_dim=128, index_kpool=16,
        index_topk=2048, intermediate_size=12288, moe_intermediate_size=2048, n_routed_experts=288, num_experts_per_tok=8,
        linear_attn_config=dict(num_heads=64, head_dim=128, short_conv_kernel_size=4, gate_lower_bound=-5.0),
        vocab_size=154880), (313.327, 304.406, 16.742)),
    "ERNIE-4.5-21B-A3B": ("ernie4_5_moe", dict(
        num_hidden_layers=28, hidden_size=2560, num_attention_heads=20, num_key_value_heads=4, head_dim=128,
        intermediate_size=12288, moe_intermediate_size=1536, moe_num_experts=64, moe_k=6, moe_num_shared_experts=2,
        moe_layer_start_index=1, moe_layer_end_index=27, vocab_size=103424), (21.825, 20.384, 3.352)),
    "MiniMax-M2": ("minimax_m2", dict(
        num_hidden_layers=62, attn_type_list=[1] * 62, hidden_size=3072, num_attention_heads=48, num_key_value_heads=8,
        head_dim=128, rotary_dim=64, intermediate_size=1536, num_local_experts=256, num_experts_per_tok=8,
        vocab_size=200064), (228.690, 224.680, 10.416)),
    "Hunyuan-A13B": ("hunyuan_v1_moe", dict(
        num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
        attention_head_dim=128, intermediate_size=3072, moe_intermediate_size=[3072] * 32, num_experts=64,
        moe_topk=[8] * 32, num_shared_expert=[1] * 32, vocab_size=128167, org_vocab_size=128167),
        (80.393, 77.309, 12.747)),
    "gpt-oss-20b": ("gpt_oss", dict(
        num_hidden_layers=24, layer_types=["sliding_attention", "full_attention"] * 12, hidden_size=2880,
        num_attention_heads=64, num_key_value_heads=8, head_dim=64, intermediate_size=2880, num_local_experts=32,
        num_experts_per_tok=4, sliding_window=128, vocab_size=201088), (20.915, 19.117, 3.608)),
    "Granite-4.0-H-Tiny": ("granitemoehybrid", dict(
        num_hidden_layers=40, layer_types=(["mamba"] * 9 + ["attention"]) * 4, hidden_size=1536, num_attention_heads=12,
        num_key_value_heads=4, intermediate_size=512, shared_intermediate_size=1024, num_local_experts=64, num_experts_per_tok=6,
        mamba_n_heads=48, mamba_d_head=64, mamba_d_state=128, vocab_size=100352), (6.939, 6.040, 1.465)),
    "Nemotron-3-Nano-30B-A3B": ("nemotron_h", dict(
        num_hidden_layers=52, hybrid_override_pattern="MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", hidden_size=2688,
        num_attention_heads=32, num_key_value_heads=2, head_dim=128, mamba_num_heads=64, mamba_head_dim=64, n_groups=8,
        ssm_state_size=128, moe_intermediate_size=1856, moe_shared_expert_intermediate_size=3712, n_routed_experts=128,
        num_experts_per_tok=6, vocab_size=131072), (31.578, 29.375, 3.228)),
    "Jamba-v0.1": ("jamba", dict(
        num_hidden_layers=32, attn_layer_period=8, attn_layer_offset=4, hidden_size=4096, num_attention_heads=32,
        num_key_value_heads=8, intermediate_size=14336, num_experts=16, mamba_d_state=16, mamba_dt_rank=256, vocab_size=65536),
        (51.570, 45.097, 11.842)),
    "switch-base-8": ("switch_transformers", dict(
        num_layers=12, num_decoder_layers=12, num_sparse_encoder_layers=6, num_sparse_decoder_layers=6, d_model=768, d_kv=64,
        d_ff=3072, num_heads=12, num_experts=8, vocab_size=32128), (0.619, 0.453, 0.223)),
    "nllb-moe-54b": ("nllb_moe", dict(
        encoder_layers=24, decoder_layers=24, d_model=2048, encoder_ffn_dim=8192, decoder_ffn_dim=8192,
        encoder_attention_heads=16, decoder_attention_heads=16, encoder_sparse_step=4, decoder_sparse_step=4, num_experts=128,
        vocab_size=256206), (54.501, 51.555, 3.751)),
    "GPTSAN-japanese": ("gptsan_japanese", dict(
        num_layers=10, num_switch_layers=10, d_model=1024, d_ff=8192, num_heads=16, num_experts=16, vocab_size=36000,
        max_position_embeddings=1280), (2.776, 2.684, 0.260)),  # Without the spout, which is not read.
    "Qwen3-Next-80B-A3B": ("qwen3_next", dict(
        num_hidden_layers=48, hidden_size=2048, num_attention_heads=16, num_key_value_heads=2, head_dim=256,
        linear_num_key_heads=16, linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128,
        intermediate_size=5120, moe_intermediate_size=512,
        shared_expert_intermediate_size=512, num_experts=512, num_experts_per_tok=10, vocab_size=151936),
        (79.674, 77.309, 3.564)),
    "Qwen3.6-35B-A3B": ("qwen3_5_moe", dict(
        num_hidden_layers=40, layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 10, hidden_size=2048,
        num_attention_heads=16, num_key_value_heads=2, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=32,
        linear_key_head_dim=128, linear_value_head_dim=128, moe_intermediate_size=512,
        shared_expert_intermediate_size=512, num_experts=256, num_experts_per_tok=8, vocab_size=248320),
        (34.661, 32.212, 2.946)),
    "Qwen3.8-Flash-Next": ("qwen4_exp", dict(
        num_hidden_layers=48, layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 12, hidden_size=2560,
        num_attention_heads=24, num_key_value_heads=2, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=48,
        linear_key_head_dim=128, linear_value_head_dim=128, moe_intermediate_size=640,
        shared_expert_intermediate_size=640, num_experts=512, num_experts_per_tok=10, hc_lowrank=320, ple_embed_dim=2560,
        heads_per_ngram=8, ngram_vocab_size_base=20000000, make_ngram_vocab_size_divisible_by=128, split_ngram_parts=512,
        indexer_head_dim=128, indexer_budget=2048, indexer_compress_ratio=16, vocab_size=248320),
        (176.944, 120.796, 6.671)),
    "Kimi-Linear-48B-A3B": ("kimi_linear", dict(
        LATENT, num_hidden_layers=27, hidden_size=2304, num_attention_heads=32, num_key_value_heads=32,
        linear_attn_config=dict(
            full_attn_layers=[4, 8, 12, 16, 20, 24, 27], kda_layers=[i for i in range(1, 27) if i % 4], num_heads=32,
            head_dim=128, short_conv_kernel_size=4),
        intermediate_size=9216, moe_intermediate_size=1024, num_experts=256, num_experts_per_token=8,
        vocab_size=163840), (49.123, 47.110, 3.107)),
    "Ling-3.0-flash": ("bailing_hybrid", dict(
        LATENT, num_hidden_layers=42, hidden_size=2560, num_attention_heads=32, num_key_value_heads=32, head_dim=128,
        layer_group_size=6, first_k_dense_replace=2, intermediate_size=6144, moe_intermediate_size=768,
        num_experts=512, num_experts_per_tok=8, n_group=8, topk_group=4, vocab_size=157184),
        (124.414, 120.796, 5.103)),
    # With the heads of its class in every layer.
    "Laguna": ("laguna", dict(
        num_hidden_layers=40, hidden_size=2048, num_attention_heads=48, num_key_value_heads=8, head_dim=128,
        num_attention_heads_per_layer=None, layer_types=None, mlp_layer_types=None, intermediate_size=8192,
        moe_intermediate_size=512, shared_expert_intermediate_size=512, num_experts=256, num_experts_per_tok=8,
        vocab_size=100352), (33.190, 31.407, 2.559)),
    "Mistral-Small-4-119B": ("mistral4", dict(
        num_hidden_layers=36, hidden_size=4096, num_attention_heads=32, num_key_value_heads=32, q_lora_rank=1024,
        kv_lora_rank=256, qk_nope_head_dim=64, qk_rope_head_dim=64, v_head_dim=128, rope_parameters=None,
        intermediate_size=12288, moe_intermediate_size=2048, n_routed_experts=128, num_experts_per_tok=4, n_group=1,
        topk_group=1, first_k_dense_replace=0, vocab_size=131072), (118.973, 115.964, 6.096)),
    "LFM2-8B-A1B": ("lfm2_moe", dict(
        num_hidden_layers=24, layer_types=["full_attention" if layer in (2, 6, 10, 14, 18, 21) else "conv"
                                           for layer in range(24)],
        hidden_size=2048, num_attention_heads=32, num_key_value_heads=8, intermediate_size=7168,
        moe_intermediate_size=1792, num_experts=32, num_experts_per_tok=4, num_dense_layers=2, vocab_size=65536),
        (8.340, 7.751, 1.558)),
    "Phi-3.5-MoE": ("phimoe", dict(
        num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, intermediate_size=6400,
        num_local_experts=16, num_experts_per_tok=2, vocab_size=32064, max_position_embeddings=131072,
        original_max_position_embeddings=4096,
        rope_scaling=dict(type="longrope", short_factor=[1.25] * 64, long_factor=[8.0] * 64, short_mscale=1.25,
                          long_mscale=1.25, original_max_position_embeddings=4096)), (41.873, 40.265, 6.510)),
    "Gemma-4-26B-A4B": ("gemma4", dict(
        num_hidden_layers=30, layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 5, hidden_size=2816,
        num_attention_heads=16, num_key_value_heads=8, head_dim=256, num_global_key_value_heads=2, global_head_dim=512,
        intermediate_size=2112, moe_intermediate_size=704, num_experts=128, top_k_experts=8, vocab_size=262144),
        (25.233, 22.838, 3.823)),
    "Llama-4-Scout": ("llama4", dict(
        num_hidden_layers=48, hidden_size=5120, num_attention_heads=40, num_key_value_heads=8, head_dim=128,
        intermediate_size=8192, intermediate_size_mlp=16384, num_local_experts=16, num_experts_per_tok=1,
        no_rope_layers=[1, 1, 1, 0] * 12, attention_chunk_size=8192, floor_scale=8192, vocab_size=202048), (107.770, 96.637, 16.138)),
    "dots.llm1": ("dots1", dict(
        num_hidden_layers=62, hidden_size=4096, num_attention_heads=32, num_key_value_heads=32, head_dim=128,
        intermediate_size=10944, moe_intermediate_size=1408, n_routed_experts=128, n_shared_experts=2,
        num_experts_per_tok=6, vocab_size=152064), (142.774, 135.090, 13.394)),
    "FlexOlmo-7x7B": ("flex_olmo", dict(
        num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=32, intermediate_size=11008,
        num_experts=7, num_experts_per_tok=5, vocab_size=100352), (33.271, 30.300, 24.203)),
}
# Those of which the first layers are compiled and run, with their number: every kind of layer is among them.
RUN = {"Qwen3-30B-A3B": 2, "GLM-4.7-Flash": 2, "DeepSeek-V2-Lite": 2, "gpt-oss-20b": 2, "Qwen3.6-35B-A3B": 4,
       "LFM2-8B-A1B": 4, "Gemma-4-26B-A4B": 6, "Phi-3.5-MoE": 2}


def config_of(name, layers=None):
    """The published config, or one with a few of its layers."""
    case, published, _ = PUBLISHED[name]
    config = json.loads((DATA / "golden" / case / "config.json").read_text())
    config.pop("quantization_config", None)  # The weights are counted, and made, unquantized.
    inner = config.get("text_config", config)
    inner.update(published)
    if layers:
        inner["num_hidden_layers"] = layers
        if "layer_types" in inner:
            inner["layer_types"] = inner["layer_types"][:layers]
    return config


class DimensionsTest(E2eTest):
    def directory_of(self, config):
        directory = self.scratch / "model"
        directory.mkdir(exist_ok=True)
        (directory / "config.json").write_text(json.dumps(config))
        return directory

    def test_parameters_are_those_of_the_published_checkpoints(self):
        for name, (_, _, counts) in PUBLISHED.items():
            directory = self.directory_of(config_of(name))
            planned = json.loads(self.expect(DONE, "moec", "plan", directory, "--memory", "64GiB", "--json").out)
            for key, billions in zip(("parameters", "expert_parameters", "active_parameters"), counts):
                self.assertAlmostEqual(planned[key] / 1e9, billions, delta=0.005 * billions, msg=f"{name} {key}")


class RandomWeightsTest(DimensionsTest):
    def setUp(self):
        super().setUp()
        if not FULL:
            self.skipTest("takes --full")
        reason = cgroups.unavailable()
        if reason:
            self.skipTest(reason)

    test_parameters_are_those_of_the_published_checkpoints = None

    def within(self, limit, *command):
        with cgroups.Group(limit) as group:
            cgroups.drop_page_cache()
            done = group.run([program(command[0]), *map(str, command[1:])])
            self.assertEqual((done.returncode, group.times_at_limit(), group.oom_kills()), (DONE, 0, 0), done.stderr)
            return done.stdout.decode()

    def check(self, name):
        directory = self.directory_of(config_of(name, RUN[name]))
        subprocess.run([GENERATOR, directory], check=True)
        model = self.scratch / "model.moe"
        self.within(COMPILE_LIMIT, "moec", "compile", directory, "--bits", "4", "-o", model)
        (directory / "model.safetensors").unlink()
        ids = self.scratch / "prompt.ids"
        ids.write_text(" ".join(str(97 * i % 30000) for i in range(64)))
        command = ("run", model, "--ids", ids, "-n", "16", "--temp", "0", "--ignore-eos", "--context", "256")
        profile = self.scratch / "run.json"
        whole = self.expect(DONE, "moert", *command, "--memory", "100%").out
        quarter = self.expect(DONE, "moert", *command, "--memory", "25%", "--profile", profile).out
        budget = cgroups.whole_pages(json.loads(profile.read_text())["budget_bytes"])
        self.assertEqual(quarter, whole)
        self.assertEqual(self.within(budget, "moert", *command, "--memory", f"{budget}B"), whole)

    def test_layers_of_published_models_compile_and_run_within_their_memory(self):
        for name in RUN:
            with self.subTest(name):
                self.check(name)
