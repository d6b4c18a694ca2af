// Lets a single allocation of memory fail, for tests that each one may: mapping, growing and
// populating a region, and operator new where the program has CountAllocations.cpp too. A test
// program that uses it lists FailAllocations.cpp among its sources, which replaces the functions.
#pragma once

#include <cstdint>

namespace moert {

enum class AllocationKind { kNoAllocation, kNew, kMap, kRemap, kPopulate };

/// While it lives, the allocation that `successes` others precede fails.
class FailingAllocation {
public:
  explicit FailingAllocation(uint64_t successes);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation &) = delete;
  FailingAllocation &operator=(const FailingAllocation &) = delete;

  /// Which one failed; kNoAllocation: there were not so many.
  AllocationKind failed() const;
};

/// Whether this call of operator new fails.
bool allocationFails();

} // namespace moert
