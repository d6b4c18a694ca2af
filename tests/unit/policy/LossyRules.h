// A miss rule of each action, for tests that hold for all of them.
#pragma once

#include "runtime/policy/MissPolicy.h"

#include <vector>

namespace moert {

/// A fraction in units of kFixedPointOne.
constexpr uint32_t part(double fraction) {
  return static_cast<uint32_t>(fraction * kFixedPointOne);
}

inline const std::vector<MissRule> kLossyRules = {
    {.action = MissAction::kLower, .waitUpTo = part(0.3), .skipBeyond = part(0.7)},
    {.action = MissAction::kLower},
    {.action = MissAction::kSkip, .waitUpTo = part(0.3)},
    {.action = MissAction::kSubstitute, .substituteWithin = part(0.5)},
    {.action = MissAction::kMask},
};

} // namespace moert
