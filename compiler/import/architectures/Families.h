// One function per family, and the keys of each family's config class; Architecture.cpp lists them.
#pragma once

#include "compiler/import/Architecture.h"
#include "compiler/import/ConfigTable.h"

namespace moec {

extern const ConfigKeys kBailingHybridKeys;
extern const ConfigKeys kDeepSeekKeys;
extern const ConfigKeys kDeepSeekV2Keys;
extern const ConfigKeys kDeepSeekV3Keys;
extern const ConfigKeys kDeepSeekV32Keys;
extern const ConfigKeys kDeepSeekV4Keys;
extern const ConfigKeys kDots1Keys;
extern const ConfigKeys kErnie45MoeKeys;
extern const ConfigKeys kFlexOlmoKeys;
extern const ConfigKeys kGemma4Keys;
extern const ConfigKeys kGemma4TextKeys;
extern const ConfigKeys kGlm4MoeKeys;
extern const ConfigKeys kGlm4MoeLiteKeys;
extern const ConfigKeys kGlm5NextKeys;
extern const ConfigKeys kGlm5NextTextKeys;
extern const ConfigKeys kGlmMoeDsaKeys;
extern const ConfigKeys kGptOssKeys;
extern const ConfigKeys kGptSanJapaneseKeys;
extern const ConfigKeys kGraniteMoeHybridKeys;
extern const ConfigKeys kGraniteMoeKeys;
extern const ConfigKeys kHunyuanMoeKeys;
extern const ConfigKeys kJambaKeys;
extern const ConfigKeys kKimiLinearKeys;
extern const ConfigKeys kLagunaKeys;
extern const ConfigKeys kLfm2MoeKeys;
extern const ConfigKeys kLlama4Keys;
extern const ConfigKeys kLlama4TextKeys;
extern const ConfigKeys kMiniCpmMoeKeys;
extern const ConfigKeys kMiniMaxM2Keys;
extern const ConfigKeys kMistral3Keys;
extern const ConfigKeys kMistral4Keys;
extern const ConfigKeys kMixtralKeys;
extern const ConfigKeys kNemotronHKeys;
extern const ConfigKeys kNllbMoeKeys;
extern const ConfigKeys kOlmoeKeys;
extern const ConfigKeys kPhiMoeKeys;
extern const ConfigKeys kQwen2MoeKeys;
extern const ConfigKeys kQwen3MoeKeys;
extern const ConfigKeys kQwen3NextKeys;
extern const ConfigKeys kQwen3OmniMoeKeys;
extern const ConfigKeys kQwen3OmniMoeTextKeys;
extern const ConfigKeys kQwen3VlMoeKeys;
extern const ConfigKeys kQwen4ExpKeys;
extern const ConfigKeys kQwen4ExpTextKeys;
extern const ConfigKeys kQwen3VlMoeTextKeys;
extern const ConfigKeys kQwen35MoeKeys;
extern const ConfigKeys kQwen35MoeTextKeys;
extern const ConfigKeys kSwinMoeKeys;
extern const ConfigKeys kSwitchTransformersKeys;

moert::Result<ModelDescription> describeBailingHybrid(const ArchitectureInput &input);
moert::Result<ModelDescription> describeDeepSeek(const ArchitectureInput &input);
moert::Result<ModelDescription> describeDeepSeekV2(const ArchitectureInput &input);
moert::Result<ModelDescription> describeDeepSeekV3(const ArchitectureInput &input);
moert::Result<ModelDescription> describeDeepSeekV32(const ArchitectureInput &input);
moert::Result<ModelDescription> describeDeepSeekV4(const ArchitectureInput &input);
moert::Result<ModelDescription> describeDots1(const ArchitectureInput &input);
moert::Result<ModelDescription> describeErnie45Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeFlexOlmo(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGemma4(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGlm4Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGlm4MoeLite(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGlm5Next(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGlmMoeDsa(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGptOss(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGptSanJapanese(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGraniteMoeHybrid(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGraniteMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeHunyuanMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeJamba(const ArchitectureInput &input);
moert::Result<ModelDescription> describeKimiLinear(const ArchitectureInput &input);
moert::Result<ModelDescription> describeLaguna(const ArchitectureInput &input);
moert::Result<ModelDescription> describeLfm2Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeLlama4(const ArchitectureInput &input);
moert::Result<ModelDescription> describeMiniCpmMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeMiniMaxM2(const ArchitectureInput &input);
moert::Result<ModelDescription> describeMistral4(const ArchitectureInput &input);
moert::Result<ModelDescription> describeMixtral(const ArchitectureInput &input);
moert::Result<ModelDescription> describeNemotronH(const ArchitectureInput &input);
moert::Result<ModelDescription> describeNllbMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeOlmoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describePhiMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen2Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen3Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen3Next(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen3OmniMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen3VlMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen4Exp(const ArchitectureInput &input);
moert::Result<ModelDescription> describeSwinMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen35Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeSwitchTransformers(const ArchitectureInput &input);

} // namespace moec
