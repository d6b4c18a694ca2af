// The options that every command with an engine takes, and helpers for options with a range.
#pragma once

#include "moert/Engine.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace moert::cli {

struct EngineFlags {
  std::optional<BudgetSize> memory;
  uint32_t threads = 0; // 0: as many as there are cores for this process.
  IoBackend io = IoBackend::kAuto;
  std::optional<Isa> isa;
  std::optional<uint32_t> prefillChunk;
  std::optional<std::string> preset;
  bool isSettled = false;
};

/// --memory, --preset, --threads, --io, --isa, --prefill-chunk; and --settled, which help leaves
/// out: it is for holding counts against the simulation's.
void addEngineFlags(CLI::App &command, EngineFlags &flags);

/// The options of an engine as the flags say; context, rows and extra bytes are the command's.
EngineOptions engineOptionsOf(const EngineFlags &flags);

/// An option with a whole number within [minimum, maximum]; anything else is refused with both.
CLI::Option *addCount(CLI::App &command, const std::string &names, uint32_t minimum,
                      uint32_t maximum, std::function<void(uint32_t)> set,
                      const std::string &description);

/// An option with a finite decimal number; its range is checked by whoever uses it.
CLI::Option *addDecimal(CLI::App &command, const std::string &names, float &value,
                        const std::string &description);

} // namespace moert::cli
