// How a number was obtained. Readers of a plan, forecast or device profile need this to decide how
// far to trust it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moert {

/// Best first; artifacts store the number. A value computed from several has the worst origin of
/// them.
enum class Origin : uint8_t {
  kMeasured = 0, // On the machine itself, or on the model.
  kStated = 1,   // From elsewhere: a data sheet, a published measurement of such a machine.
  kDerived = 2,  // Computed from numbers that were measured or stated.
  kAssumed = 3,  // Estimated, with a reason.
};

/// "measured", "stated", "derived", "assumed".
constexpr std::string_view originName(Origin origin) {
  constexpr std::array<std::string_view, 4> kNames = {"measured", "stated", "derived", "assumed"};
  return kNames[static_cast<size_t>(origin)];
}

/// The worse of the two: the origin of a value computed from both.
constexpr Origin worseOf(Origin a, Origin b) {
  return std::max(a, b);
}

} // namespace moert
