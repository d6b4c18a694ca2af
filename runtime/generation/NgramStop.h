// Ends a generation that repeats itself: once the last N generated tokens have occurred K times
// among the generated tokens. Occurrences may overlap, so that "a a a a" has "a a" three times.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <vector>

namespace moert {

struct NgramStopOptions {
  uint32_t tokens = 0; // An n-gram's length; 0: never stops.
  uint32_t times = 0;  // At least 2.
};

/// Refuses numbers outside their ranges.
Status check(const NgramStopOptions &options);

/// Owned by one sequence, used by its thread.
class NgramStop {
public:
  /// The options have passed check(). Reserves memory for maxTokens tokens.
  NgramStop(const NgramStopOptions &stopOptions, uint32_t maxTokens);

  /// Bytes that the constructor allocates.
  static uint64_t memoryBytes(const NgramStopOptions &options, uint32_t maxTokens);

  /// Adds a generated token. Returns true if the n-gram that it completes has occurred `times`
  /// times. Takes time in proportion to the tokens so far; allocates nothing up to maxTokens.
  bool take(int32_t token);

private:
  NgramStopOptions options;
  std::vector<int32_t> tokens;
};

} // namespace moert
