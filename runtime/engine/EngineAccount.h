// What an engine's memory is accounted by: the artifact, the process and the options.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/memory/MemoryBudget.h"

#include <cstdint>
#include <vector>

namespace moert {

struct AccountInput {
  std::vector<uint32_t> plans; // To choose from.
  RunRequest request;
  ProcessFootprint process;
  ModelFootprint footprint;
};

/// Refuses options that no budget helps.
Result<AccountInput> accountInputOf(const Model &model, const EngineOptions &options);

} // namespace moert
