// What the machine, and the container around this process, leave for it: cores and memory.
#pragma once

#include <cstdint>
#include <string>

namespace moert {

/// The limits of the control groups that this process is in, along the path to the root; v1 and v2.
/// The largest number where there is none.
struct GroupLimits {
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
