// What the machine, and the container around this process, leave for it: cores and memory.
#pragma once

#include <cstdint>
#include <string>

namespace moert {

/// The limits of the control groups that this process is in, along the path to the root; v1 and v2.
/// The largest number where there is none.
struct GroupLimits {
  uint64_t memoryBytes = UINT64_MAX;
  /// Of a limit what the group's processes, this one among them, do not hold by now. Pages of files
  /// that were read are not held: the system gives them back.
  uint64_t roomBytes = UINT64_MAX;
  uint32_t cores = UINT32_MAX; // Processor time per time, rounded up; at least 1.
};

/// systemRoot: the folder that proc and sys are in, "" on a real system.
GroupLimits groupLimits(const std::string &systemRoot = "");

/// Cores that this process may use: its affinity, and a container's quota rounded up. More threads
/// than a quota has cores are stopped together until its next period.
uint32_t availableCores();

/// The smaller of the control groups' room and of the memory that is free now, less a sixteenth;
/// the whole is what a run without a budget may take.
uint64_t availableMemoryBytes();

/// What this process holds in private memory by now, after what was freed has gone back to the
/// system: heap, stacks, and what libraries mapped for themselves.
uint64_t privateMemoryBytes();

} // namespace moert
