#include "compiler/import/Architecture.h"

#include "compiler/import/ClassNames.h"
#include "compiler/import/JsonScan.h"
#include "compiler/import/architectures/Families.h"

#include <algorithm>
#include <array>
#include <exception>
#include <new>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

struct Family {
  std::string_view modelType;
  std::string_view className; // The value in `architectures`.
  Result<ModelDescription> (*describe)(const ArchitectureInput &input);
  std::string_view otherName = className; // As transformers' own class is called.
};

/// Ascending by model_type.
constexpr std::array kFamilies = {
    Family{"deepseek", "DeepseekForCausalLM", describeDeepSeek},
    Family{"deepseek_v2", "DeepseekV2ForCausalLM", describeDeepSeekV2},
    Family{"deepseek_v3", "DeepseekV3ForCausalLM", describeDeepSeekV3},
    Family{"dots1", "Dots1ForCausalLM", describeDots1},
    Family{"ernie4_5_moe", "Ernie4_5_MoeForCausalLM", describeErnie45Moe},
    Family{"flex_olmo", "FlexOlmoForCausalLM", describeFlexOlmo},
    Family{"gemma4", "Gemma4ForConditionalGeneration", describeGemma4},
    Family{"gemma4_text", "Gemma4ForCausalLM", describeGemma4Text},
    Family{"glm4_moe", "Glm4MoeForCausalLM", describeGlm4Moe},
    Family{"glm4_moe_lite", "Glm4MoeLiteForCausalLM", describeGlm4MoeLite},
    Family{"gpt_oss", "GptOssForCausalLM", describeGptOss},
    Family{"granitemoe", "GraniteMoeForCausalLM", describeGraniteMoe},
    Family{"hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", describeHunyuanMoe},
    Family{"lfm2_moe", "Lfm2MoeForCausalLM", describeLfm2Moe},
    Family{"llama4", "Llama4ForConditionalGeneration", describeLlama4},
    Family{"llama4_text", "Llama4ForCausalLM", describeLlama4},
    Family{"minicpm", "MiniCPMForCausalLM", describeMiniCpmMoe},
    Family{"minimax_m2", "MiniMaxM2ForCausalLM", describeMiniMaxM2},
    Family{"mixtral", "MixtralForCausalLM", describeMixtral},
    Family{"olmoe", "OlmoeForCausalLM", describeOlmoe},
    Family{"phimoe", "PhiMoEForCausalLM", describePhiMoe, "PhimoeForCausalLM"},
    Family{"qwen2_moe", "Qwen2MoeForCausalLM", describeQwen2Moe},
    Family{"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", describeQwen35Moe},
    Family{"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", describeQwen35Moe},
    Family{"qwen3_moe", "Qwen3MoeForCausalLM", describeQwen3Moe},
    Family{"qwen3_next", "Qwen3NextForCausalLM", describeQwen3Next},
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

Result<ModelDescription> describeModel(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const std::string modelType, input.config.string("model_type"));
  const auto *family =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family &candidate) { return candidate.modelType == modelType; });
  if (family == kFamilies.end())
    return input.config.mismatch("model_type", strCat("one of ", supportedText()));
  MOERT_RETURN_IF_ERROR(checkClass(input.config, *family));
  ArchitectureInput published = input;
  published.hasTensor = [&](std::string_view name) {
    return input.hasTensor(storedName(modelType, name, input.hasTensor));
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, family->describe(published));
  useStoredNames(model, input.hasTensor);
  return model;
}

std::vector<std::string_view> supportedModelTypes() {
  std::vector<std::string_view> types;
  for (const Family &family : kFamilies)
    types.push_back(family.modelType);
  return types;
}

} // namespace moec
