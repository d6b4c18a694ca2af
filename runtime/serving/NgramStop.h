// Ends a generation that repeats itself: once the last N generated tokens have occurred K times
// among the generated tokens. Occurrences may overlap, so that "a a a a" has "a a" three times.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>

namespace moert {

struct NgramStopOptions {
  uint32_t tokens = 0; // An n-gram's length; 0: never stops.
  uint32_t times = 0;  // At least 2.
};

/// Refuses numbers outside their ranges.
Status check(const NgramStopOptions &options);

/// Whether the n-gram that the last of the generated tokens completes has occurred `times` times.
/// The options have passed check(). Takes time in proportion to the tokens.
bool repeatsItself(const NgramStopOptions &options, std::span<const int32_t> tokens);

} // namespace moert
