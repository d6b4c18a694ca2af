// What the machine, and the container around this process, leave for it: cores and memory.
#pragma once

#include <cstdint>
#include <string>

namespace moert {

/// Memory of the machine or, where that is less, of the container around this process: its control
/// groups.
struct MemoryBound {
  uint64_t bytes = UINT64_MAX;
  bool isOfContainer = false;
};

struct SystemMemory {
  MemoryBound limit; // Of all processes together.
  MemoryBound room;  // What they do not hold by now; pages of files count as room.
};

/// Without what the machine can swap out: a budget that is met by swapping reads and writes the
/// disk that the experts are on.
SystemMemory systemMemory(const std::string &systemRoot = "");

/// The limits of the control groups that this process is in, along the path to the root; v1 and v2.
/// The largest number where there is none.
struct GroupLimits {
  uint64_t limitBytes = UINT64_MAX; // The smallest one.
  /// Of the limits what the groups' processes, this one among them, do not hold by now. Pages of
  /// files that were read are not held: the system gives them back.
  uint64_t roomBytes = UINT64_MAX;
  uint32_t cores = UINT32_MAX; // Processor time per time, rounded up; at least 1.
};

/// systemRoot: the folder that proc and sys are in, "" on a real system.
GroupLimits groupLimits(const std::string &systemRoot = "");

/// Cores that this process may use: its affinity, and a container's quota rounded up. More threads
/// than a quota has cores are stopped together until its next period.
uint32_t availableCores();

/// What this process may take in all, a run without a budget for one: what it holds in private
/// memory already, and the smaller of the control groups' room and of the memory that is free now,
/// less a sixteenth.
uint64_t availableMemoryBytes();

/// What this process holds in private memory by now, after what was freed has gone back to the
/// system: heap, stacks, and what libraries mapped for themselves.
uint64_t privateMemoryBytes();

} // namespace moert
