#include "compiler/import/Architecture.h"

#include "compiler/import/ClassNames.h"
#include "compiler/import/JsonScan.h"
#include "compiler/import/architectures/Families.h"

#include <algorithm>
#include <array>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

/// Ascending by model_type.
const std::array kFamilies = {
    Family{"bailing_hybrid", "BailingHybridForCausalLM", describeBailingHybrid, kBailingHybridKeys},
    Family{"deepseek", "DeepseekForCausalLM", describeDeepSeek, kDeepSeekKeys},
    Family{"deepseek_v2", "DeepseekV2ForCausalLM", describeDeepSeekV2, kDeepSeekV2Keys},
    Family{"deepseek_v3", "DeepseekV3ForCausalLM", describeDeepSeekV3, kDeepSeekV3Keys},
    Family{"deepseek_v32", "DeepseekV32ForCausalLM", describeDeepSeekV32, kDeepSeekV32Keys},
    Family{"deepseek_v4", "DeepseekV4ForCausalLM", describeDeepSeekV4, kDeepSeekV4Keys},
    Family{"dots1", "Dots1ForCausalLM", describeDots1, kDots1Keys},
    Family{"ernie4_5_moe", "Ernie4_5_MoeForCausalLM", describeErnie45Moe, kErnie45MoeKeys},
    Family{"flex_olmo", "FlexOlmoForCausalLM", describeFlexOlmo, kFlexOlmoKeys},
    Family{"gemma4", "Gemma4ForConditionalGeneration", describeGemma4, kGemma4TextKeys, kGemma4Keys,
           "gemma4_text"},
    Family{"gemma4_text", "Gemma4ForCausalLM", describeGemma4, kGemma4TextKeys},
    Family{"glm4_moe", "Glm4MoeForCausalLM", describeGlm4Moe, kGlm4MoeKeys},
    Family{"glm4_moe_lite", "Glm4MoeLiteForCausalLM", describeGlm4MoeLite, kGlm4MoeLiteKeys},
    Family{"glm5_next", "Glm5NextForConditionalGeneration", describeGlm5Next, kGlm5NextTextKeys,
           kGlm5NextKeys, "glm5_next_text"},
    Family{"glm_moe_dsa", "GlmMoeDsaForCausalLM", describeGlmMoeDsa, kGlmMoeDsaKeys},
    Family{"gpt_oss", "GptOssForCausalLM", describeGptOss, kGptOssKeys},
    Family{"gptsan-japanese", "GPTSanJapaneseForConditionalGeneration", describeGptSanJapanese,
           kGptSanJapaneseKeys},
    Family{"granitemoe", "GraniteMoeForCausalLM", describeGraniteMoe, kGraniteMoeKeys},
    Family{"granitemoehybrid", "GraniteMoeHybridForCausalLM", describeGraniteMoeHybrid,
           kGraniteMoeHybridKeys},
    Family{"hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", describeHunyuanMoe, kHunyuanMoeKeys},
    Family{"jamba", "JambaForCausalLM", describeJamba, kJambaKeys},
    // The class of DeepSeek-V3, under its own model_type.
    Family{"kimi_k2", "DeepseekV3ForCausalLM", describeDeepSeekV3, kDeepSeekV3Keys},
    Family{"kimi_linear", "KimiLinearForCausalLM", describeKimiLinear, kKimiLinearKeys},
    Family{"laguna", "LagunaForCausalLM", describeLaguna, kLagunaKeys},
    Family{"lfm2_moe", "Lfm2MoeForCausalLM", describeLfm2Moe, kLfm2MoeKeys},
    Family{"llama4", "Llama4ForConditionalGeneration", describeLlama4, kLlama4TextKeys, kLlama4Keys,
           "llama4_text"},
    Family{"llama4_text", "Llama4ForCausalLM", describeLlama4, kLlama4TextKeys},
    Family{"minicpm", "MiniCPMForCausalLM", describeMiniCpmMoe, kMiniCpmMoeKeys},
    Family{"minimax_m2", "MiniMaxM2ForCausalLM", describeMiniMaxM2, kMiniMaxM2Keys},
    Family{"mistral3", "Mistral3ForConditionalGeneration", describeMistral4, kMistral4Keys,
           kMistral3Keys, "mistral4"},
    Family{"mistral4", "Mistral4ForCausalLM", describeMistral4, kMistral4Keys},
    Family{"mixtral", "MixtralForCausalLM", describeMixtral, kMixtralKeys},
    Family{"nemotron_h", "NemotronHForCausalLM", describeNemotronH, kNemotronHKeys},
    // Published as the model without its head.
    Family{"nllb-moe",
           "NllbMoeModel",
           describeNllbMoe,
           kNllbMoeKeys,
           {},
           {},
           "NllbMoeForConditionalGeneration"},
    Family{"olmoe", "OlmoeForCausalLM", describeOlmoe, kOlmoeKeys},
    Family{"phimoe", "PhiMoEForCausalLM", describePhiMoe, kPhiMoeKeys, {}, {}, "PhimoeForCausalLM"},
    Family{"qwen2_moe", "Qwen2MoeForCausalLM", describeQwen2Moe, kQwen2MoeKeys},
    Family{"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", describeQwen35Moe,
           kQwen35MoeTextKeys, kQwen35MoeKeys, "qwen3_5_moe_text"},
    Family{"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", describeQwen35Moe, kQwen35MoeTextKeys},
    Family{"qwen3_moe", "Qwen3MoeForCausalLM", describeQwen3Moe, kQwen3MoeKeys},
    Family{"qwen3_next", "Qwen3NextForCausalLM", describeQwen3Next, kQwen3NextKeys},
    Family{"qwen3_omni_moe", "Qwen3OmniMoeForConditionalGeneration", describeQwen3OmniMoe,
           kQwen3OmniMoeTextKeys, kQwen3OmniMoeKeys, "qwen3_omni_moe_text",
           "Qwen3OmniMoeForConditionalGeneration", "thinker_config"},
    Family{"qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", describeQwen3VlMoe,
           kQwen3VlMoeTextKeys, kQwen3VlMoeKeys, "qwen3_vl_moe_text"},
    Family{"qwen4_exp", "Qwen4ExpForConditionalGeneration", describeQwen4Exp, kQwen4ExpTextKeys,
           kQwen4ExpKeys, "qwen4_exp_text"},
    Family{"qwen4_exp_text", "Qwen4ExpForCausalLM", describeQwen4Exp, kQwen4ExpTextKeys},
    // No class of transformers: its model type is ours.
    Family{"swin_moe", "SwinTransformerMoE", describeSwinMoe, kSwinMoeKeys},
    Family{"switch_transformers", "SwitchTransformersForConditionalGeneration",
           describeSwitchTransformers, kSwitchTransformersKeys},
};

std::string supportedText() {
  std::string text;
  for (const Family &family : kFamilies)
    text += strCat(text.empty() ? "" : ", ", family.modelType, " (", family.className, ")");
  return text;
}

/// A head for classification, or a variant under another name, computes something else.
Status checkClass(const ConfigObject &config, const Family &family) {
  if (!config.has("architectures"))
    return Status();
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> names, config.strings("architectures"));
  const bool allKnown = std::all_of(names.begin(), names.end(), [&](const std::string &name) {
    return name == family.className || name == family.otherName;
  });
  if (allKnown)
    return Status();
  return config.mismatch("architectures",
                         strCat(family.className, " for model_type ", family.modelType,
                                "; supported: ", supportedText()));
}

} // namespace

/// The text model's config inside `outer`.
static Result<ConfigObject> textConfigOf(const ConfigObject &outer, const Family &family) {
  ConfigObject holder = outer;
  if (!family.textHolder.empty()) {
    MOERT_ASSIGN_OR_RETURN(holder, outer.object(family.textHolder));
  }
  MOERT_ASSIGN_OR_RETURN(ConfigObject text, holder.object("text_config"));
  if (text.has("model_type")) {
    MOERT_ASSIGN_OR_RETURN(const std::string type, text.string("model_type"));
    if (type != family.textType)
      return text.mismatch("model_type", strCat("\"", family.textType, "\""));
  }
  return text;
}

/// Numbers and flags; others, such as lists per layer, follow from these.
static std::vector<std::string> defaultedKeys(const ConfigObject &config,
                                              const ConfigTable &table) {
  std::vector<std::string> keys;
  for (const ConfigKey &row : table.rows())
    if (row.effect == KeyEffect::kUsed && !config.isGiven(row.name) && row.fallback != "null" &&
        (row.type.starts_with("int") || row.type.starts_with("flag")))
      keys.push_back(strCat(row.name, " (", row.fallback, ")"));
  return keys;
}

Result<ModelDescription> describeModel(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const std::string modelType, input.config.string("model_type"));
  const auto *family =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family &candidate) { return candidate.modelType == modelType; });
  if (family == kFamilies.end() && !input.config.hasKeyWith("expert"))
    return moert::invalidInput(
        input.config.fileName(), ": 'model_type': found ", quoted(modelType),
        " and no key with experts; this is a dense model: all weights are needed for every token, "
        "so there is nothing to stream; expected a Mixture-of-Experts model, such as mixtral or "
        "qwen3_moe");
  if (family == kFamilies.end())
    return input.config.mismatch("model_type", strCat("one of ", supportedText()));
  MOERT_RETURN_IF_ERROR(checkClass(input.config, *family));
  const ConfigTable table(family->keys), outerTable(family->outerKeys);
  ArchitectureInput text = input;
  text.hasTensor = [&](std::string_view name) {
    return input.hasTensor(storedName(modelType, name, input.hasTensor));
  };
  if (!family->outerKeys.empty()) {
    MOERT_ASSIGN_OR_RETURN(text.outer, input.config.withTable(outerTable));
    MOERT_ASSIGN_OR_RETURN(text.config, textConfigOf(input.config, *family));
  }
  MOERT_ASSIGN_OR_RETURN(text.config, text.config.withTable(table));
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, family->describe(text));
  if (model.modelType.empty())
    model.modelType = family->textType.empty() ? family->modelType : family->textType;
  model.defaultedKeys = defaultedKeys(text.config, table);
  useStoredNames(model, input.hasTensor);
  return model;
}

std::span<const Family> supportedFamilies() {
  return kFamilies;
}

} // namespace moec
