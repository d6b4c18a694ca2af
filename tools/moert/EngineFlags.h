// The options of every command that loads an engine, and helpers for options with a range.
#pragma once

#include "runtime/engine/Engine.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace moert::cli {

/// What a command writes to standard error beside errors.
struct NoticeFlags {
  bool isQuiet = false;   // Nothing.
  bool isVerbose = false; // Plan, reads and all numbers.
  bool hasMemoryTable = false;

  bool showsMemory() const { return hasMemoryTable || isVerbose; }
};

struct EngineFlags {
  std::optional<BudgetSize> memory;
  bool followsMemory = false; // --memory follow.
  uint32_t threads = 0;       // 0: one per core that this process may use.
  IoBackend io = IoBackend::kAuto;
  std::optional<Isa> isa;
  std::optional<uint32_t> prefillChunk;
  std::optional<std::string> preset;
  bool isExact = false;
  const DeviceBackend *device = nullptr; // Null: the processor.
  bool isDeviceOptional = false;         // --device auto.
  std::optional<BudgetSize> deviceMemory;
  NoticeFlags notices;
};

/// Whether --memory takes `follow`: of commands that may change the budget between steps.
enum class FollowMemory { kRefused, kOffered };

/// Adds --memory, --device, --device-memory, --preset, --threads, --io, --isa, --prefill-chunk,
/// --exact, and --verbose, --quiet, --memory-table.
void addEngineFlags(CLI::App &command, EngineFlags &flags,
                    FollowMemory follow = FollowMemory::kRefused);

/// Engine options from the flags; the command sets context, rows
/// and extra bytes. A budget that follows begins with what memorySignals() gives.
EngineOptions engineOptionsOf(const EngineFlags &flags);

/// Adds an option with a whole number in [minimum, maximum]; any other value is refused, and the
/// message states the range.
CLI::Option *addCount(CLI::App &command, const std::string &names, uint32_t minimum,
                      uint32_t maximum, std::function<void(uint32_t)> set,
                      const std::string &description);

/// Above any context.
constexpr uint32_t kMostTokens = 1 << 24;
/// The value of `-n -1`: as many tokens as the context has room for.
constexpr uint32_t kNoLimit = UINT32_MAX;

/// Adds -n: a whole number in [minimum, kMostTokens], or -1, for which `set` gets kNoLimit.
CLI::Option *addTokens(CLI::App &command, uint32_t minimum, std::function<void(uint32_t)> set,
                       const std::string &description);

/// Adds an option with a finite decimal number; the caller checks its range.
CLI::Option *addDecimal(CLI::App &command, const std::string &names, std::function<void(float)> set,
                        const std::string &description);

/// The finite decimal number that `text` consists of.
std::optional<float> parseDecimal(const std::string &text);

} // namespace moert::cli
