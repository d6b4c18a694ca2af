// One function per family; Architecture.cpp lists them.
#pragma once

#include "compiler/import/Architecture.h"

namespace moec {

moert::Result<ModelDescription> describeMixtral(const ArchitectureInput &input);
moert::Result<ModelDescription> describeQwen2Moe(const ArchitectureInput &input);

} // namespace moec
