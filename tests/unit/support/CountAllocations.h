// Counts what operator new is asked for, for tests that promise to allocate nothing. A test program
// that wants it lists CountAllocations.cpp among its sources, which replaces the operators.
#pragma once

#include <cstdint>

namespace moert {

uint64_t allocationsSoFar();
uint64_t allocatedBytesSoFar();

} // namespace moert
