// The cores and the memory that the machine and its container leave for this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace moert {

/// Memory of the machine or, where that is less, of the container around this process: its control
/// groups.
struct MemoryBound {
  uint64_t bytes = UINT64_MAX;
  bool isOfContainer = false;
};

struct SystemMemory {
  MemoryBound limit; // All processes together.
  MemoryBound room;  // What they do not hold by now; pages of files count as room.
};

/// Without what the machine can swap out: a budget that is met by swapping reads and writes the
/// disk that the experts are on.
SystemMemory systemMemory(const std::string &systemRoot = "");

/// The limits of the control groups that this process is in, along the path to the root; v1 and v2.
/// The largest number where there is none.
struct GroupLimits {
  uint64_t limitBytes = UINT64_MAX; // The smallest one.
  /// The part of the limits that the groups' processes, this one among them, do not hold by now.
  /// Pages of files that were read are not held: the system gives them back.
  uint64_t roomBytes = UINT64_MAX;
  uint32_t cores = UINT32_MAX; // CPU time quota per period, rounded up; at least 1.
};

/// systemRoot: the directory that contains proc and sys, "" on a real system.
GroupLimits groupLimits(const std::string &systemRoot = "");

/// What a process that follows its container's limit looks at. All of it changes while it runs.
struct MemorySignals {
  /// What this process may use in all: of each control group the smaller of its limit and of the
  /// size that it is to keep to before (memory.high; memory.soft_limit_in_bytes), without the
  /// memory that other processes have allocated there; and 15/16 of what the machine has left.
  MemoryBound bound;
  /// For how long some thread of the group, or without that number of the machine, has waited for
  /// memory so far; absent where the kernel does not count it.
  std::optional<uint64_t> stalledNs;
};

MemorySignals memorySignals(const std::string &systemRoot = "");

/// Cores that this process may use: the smaller of its affinity and a container's quota, rounded
/// up. With more threads than the quota has cores, all threads are throttled until the next period.
uint32_t availableCores();

/// The most compute threads that a command takes: far above the cores, so that scripts of another
/// machine work, and below what is surely a mistake. Each thread costs a stack.
uint32_t mostThreads();

/// The memory that this process may use in total, for a run without a budget: its private memory so
/// far, plus the smaller of the control groups' room and 15/16 of the free memory.
uint64_t availableMemoryBytes();

/// The private memory of this process, after freed memory has been returned to the system: heap,
/// stacks, and mappings made by libraries.
uint64_t privateMemoryBytes();

} // namespace moert
