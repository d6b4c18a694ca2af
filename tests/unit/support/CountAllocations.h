// Counts allocations by operator new, for tests of code that must not allocate. A test program that
// uses it lists CountAllocations.cpp among its sources, which replaces the operators.
#pragma once

#include <cstdint>

namespace moert {

uint64_t allocationsSoFar();
uint64_t allocatedBytesSoFar();

} // namespace moert
