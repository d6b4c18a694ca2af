// Floating-point modes that a calling program may be in: each rounding, with and without flushing
// of subnormals.
#pragma once

#include "runtime/base/FloatMode.h"

#include <vector>

namespace moert::test {

inline std::vector<DefaultFloatMode::Mode> foreignFloatModes() {
  std::vector<DefaultFloatMode::Mode> modes;
#if defined(__x86_64__)
  for (uint32_t rounding : {0x0000u, 0x2000u, 0x4000u, 0x6000u})
    for (uint32_t flushing : {0x0000u, 0x8040u})
      modes.push_back(DefaultFloatMode::kDefault | rounding | flushing);
#elif defined(__aarch64__)
  for (uint64_t rounding = 0; rounding < 4; ++rounding)
    for (uint64_t flushing : {0, 1})
      modes.push_back(rounding << 22 | flushing << 24);
#endif
  return modes;
}

/// Without the sticky flags of exceptions.
inline bool isSameMode(const DefaultFloatMode::Mode &a, const DefaultFloatMode::Mode &b) {
#if defined(__x86_64__)
  return (a | 0x3f) == (b | 0x3f);
#elif defined(__aarch64__)
  return a == b;
#else
  return (void)a, (void)b, true;
#endif
}

/// Computes in a mode and restores the one before. `compute` must not check: doctest computes too.
template <typename Compute> void inFloatMode(const DefaultFloatMode::Mode &mode, Compute compute) {
  const DefaultFloatMode::Mode before = DefaultFloatMode::current();
  DefaultFloatMode::set(mode);
  compute();
  DefaultFloatMode::set(before);
}

} // namespace moert::test
