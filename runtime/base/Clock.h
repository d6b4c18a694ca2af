// The clock is passed in, so that tests can replace it.
#pragma once

#include <cstdint>

namespace moert {

/// Returns nanoseconds since a fixed moment; never goes backwards.
using Clock = uint64_t (*)();

/// The system's monotonic clock.
uint64_t monotonicNs();

} // namespace moert
