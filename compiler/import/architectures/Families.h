// One function per family; Architecture.cpp lists them.
#pragma once

#include "compiler/import/Architecture.h"

namespace moec {

moert::Result<ModelDescription> describeDeepSeek(const ArchitectureInput &input);
moert::Result<ModelDescription> describeDeepSeekV2(const ArchitectureInput &input);
moert::Result<ModelDescription> describeDeepSeekV3(const ArchitectureInput &input);
moert::Result<ModelDescription> describeDots1(const ArchitectureInput &input);
moert::Result<ModelDescription> describeErnie45Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeFlexOlmo(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGemma4(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGemma4Text(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGlm4Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGlm4MoeLite(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGraniteMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeHunyuanMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeLfm2Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeLlama4(const ArchitectureInput &input);
moert::Result<ModelDescription> describeMiniCpmMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeMiniMaxM2(const ArchitectureInput &input);
moert::Result<ModelDescription> describeMixtral(const ArchitectureInput &input);
moert::Result<ModelDescription> describeOlmoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describePhiMoe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen2Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen3Moe(const ArchitectureInput &input);
moert::Result<ModelDescription> describeGptOss(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen3Next(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen35Moe(const ArchitectureInput &input);

} // namespace moec
