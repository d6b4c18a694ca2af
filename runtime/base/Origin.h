// How a number was obtained. Readers of a plan, forecast or device profile need this to decide how
// far to trust it.
#pragma once

#include "runtime/base/EnumNames.h"

#include <algorithm>
#include <cstdint>

namespace moert {

/// Best first; artifacts store the number. A value computed from several has the worst origin of
/// them.
enum class Origin : uint8_t {
  kMeasured = 0, // On the machine itself, or on the model.
  kStated = 1,   // From elsewhere: a data sheet, a published measurement of such a machine.
  kDerived = 2,  // Computed from numbers that were measured or stated.
  kAssumed = 3,  // Estimated, with a reason.
};

template <>
inline constexpr EnumNames<4> kNames<Origin> = {"measured", "stated", "derived", "assumed"};

/// The worse of the two: the origin of a value computed from both.
constexpr Origin worseOf(Origin a, Origin b) {
  return std::max(a, b);
}

} // namespace moert
