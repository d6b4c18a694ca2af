// The command line of a run, as a report prints it.
#pragma once

#include "compiler/report/RunSimulation.h"

#include <cstdint>
#include <optional>
#include <string>

namespace moec {

/// What a command has in place of the run's own.
struct CommandChange {
  std::optional<uint64_t> memoryBytes = std::nullopt; // --memory
  std::optional<uint32_t> threads = std::nullopt;     // --threads
};

/// `moert run ...` with the run's prompt file, or PROMPT where it had none, and all of its options.
std::string runCommand(const RunSimulation &simulation, const CommandChange &change = {});

/// "34MiB": a size for --memory that is at least so many bytes.
std::string sizeOption(uint64_t bytes);

} // namespace moec
