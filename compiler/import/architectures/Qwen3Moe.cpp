// Qwen3-MoE: as Qwen2-MoE without biases and shared expert, with a norm per head of queries and
// keys before the rotary embedding, and an explicit head_dim. The text of Qwen3-Omni is the same
// with other names: the encoders of audio and images, and what speaks, are not read. References:
// transformers, models/qwen3_moe/modular_qwen3_moe.py and
// models/qwen3_omni_moe/modular_qwen3_omni_moe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of Qwen3MoeConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "151936"},
    {"hidden_size", "int", "2048"},
    {"intermediate_size", "int", "6144"},
    {"num_hidden_layers", "int", "24"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "4"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "32768"},
    {"rms_norm_eps", "real", "1e-06"},
    {"tie_word_embeddings", "flag", "false"},
    {"attention_bias", "flag", "false"},
    {"use_sliding_window", "flag", "false"},
    {"sliding_window", "int?", "4096"},
    {"decoder_sparse_step", "int", "1"},
    {"moe_intermediate_size", "int", "768"},
    {"num_experts_per_tok", "int", "8"},
    {"num_experts", "int", "128", KeyEffect::kUsed, "num_local_experts"},
    {"norm_topk_prob", "flag", "false"},
    {"mlp_only_layers", "list?", "null"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kQwen3MoeKeys = kRows;

/// The keys of Qwen3OmniMoeTextConfig. The thinker attends without a window, whatever they say.
constexpr ConfigKey kOmniTextRows[] = {
    {"vocab_size", "int", "3584"},
    {"hidden_size", "int", "2048"},
    {"intermediate_size", "int", "18944"},
    {"num_hidden_layers", "int", "28"},
    {"num_attention_heads", "int", "28"},
    {"num_key_value_heads", "int", "4"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "32768"},
    {"rms_norm_eps", "real", "1e-06"},
    {"rope_theta", "real", "1000000.0"},
    {"tie_word_embeddings", "flag", "false", KeyEffect::kDefaultOnly},
    {"attention_bias", "flag", "false"},
    {"use_sliding_window", "any", "false", KeyEffect::kNone},
    {"sliding_window", "any", "null", KeyEffect::kNone},
    {"decoder_sparse_step", "int", "1"},
    {"moe_intermediate_size", "int", "768"},
    {"num_experts_per_tok", "int", "8"},
    {"num_experts", "int", "128", KeyEffect::kUsed, "num_local_experts"},
    {"norm_topk_prob", "flag", "true"},
    {"mlp_only_layers", "list?", "null"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kQwen3OmniMoeTextKeys = kOmniTextRows;

/// The keys of Qwen3OmniMoeConfig.
constexpr ConfigKey kOmniRows[] = {
    {"thinker_config", "object", "null"},
    {"talker_config", "any", "null", KeyEffect::kNone},
    {"code2wav_config", "any", "null", KeyEffect::kNone},
    {"enable_audio_output", "any", "true", KeyEffect::kNone},
    {"im_start_token_id", "any", "151644", KeyEffect::kNone},
    {"im_end_token_id", "any", "151645", KeyEffect::kNone},
    {"tts_pad_token_id", "any", "151671", KeyEffect::kNone},
    {"tts_bos_token_id", "any", "151672", KeyEffect::kNone},
    {"tts_eos_token_id", "any", "151673", KeyEffect::kNone},
    {"system_token_id", "any", "8948", KeyEffect::kNone},
    {"user_token_id", "any", "872", KeyEffect::kNone},
    {"assistant_token_id", "any", "77091", KeyEffect::kNone},
};

const ConfigKeys kQwen3OmniMoeKeys = kOmniRows;

namespace {

struct Qwen3MoeConfig {
  RoutedConfig routed;
  uint32_t denseWidth = 0;
  uint32_t window = 0;
  std::vector<bool> isRouted; // Per layer.
};

Result<Qwen3MoeConfig> readQwen3Moe(const ConfigObject &config, uint32_t layers) {
  Qwen3MoeConfig qwen;
  RoutedConfig &routed = qwen.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(routed.renormalize, config.boolean("norm_topk_prob"));
  MOERT_ASSIGN_OR_RETURN(qwen.isRouted, readRoutedLayers(config, layers));
  if (std::find(qwen.isRouted.begin(), qwen.isRouted.end(), false) != qwen.isRouted.end()) {
    MOERT_ASSIGN_OR_RETURN(qwen.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  }
  return qwen;
}

/// The window of all layers, unlike in Qwen2-MoE; 0: none.
Result<uint32_t> readWindow(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(const bool useWindow, config.boolean("use_sliding_window"));
  const bool isNull = config.contains("sliding_window") && !config.has("sliding_window");
  return useWindow && !isNull ? config.integer("sliding_window", 1, kMaxWindow)
                              : Result<uint32_t>(0);
}

Result<ModelDescription> describeText(const ArchitectureInput &input, const DecoderConfig &decoder,
                                      const Qwen3MoeConfig &qwen) {
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.", module = prefix + "mlp.";
    addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kHead,
                 layer.attention);
    layer.attention.window = qwen.window;
    if (!qwen.isRouted[number]) {
      layer.dense =
          gluNetwork(module, {{}, decoder.hiddenSize, qwen.denseWidth, decoder.activation});
      return Status();
    }
    MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, qwen.routed, module));
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace

Result<ModelDescription> describeQwen3Moe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(Qwen3MoeConfig qwen, readQwen3Moe(input.config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(qwen.window, readWindow(input.config));
  return describeText(input, decoder, qwen);
}

Result<ModelDescription> describeQwen3OmniMoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const Qwen3MoeConfig qwen, readQwen3Moe(input.config, decoder.layerCount));
  decoder.headPrefix = "thinker.";
  decoder.prefix = decoder.headPrefix + "model.";
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeText(input, decoder, qwen));
  for (const char *part : {"thinker.audio_tower.", "thinker.visual.", "talker.", "code2wav."})
    model.otherParts.push_back(part);
  return model;
}

} // namespace moec
