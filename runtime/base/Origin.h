// Where a number comes from. Whoever reads a plan, a forecast or a device profile wants to know how
// far to believe it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moert {

/// How a number was got, best first; an artifact stores the number. What is computed from several
/// is no better than the worst.
enum class Origin : uint8_t {
  kMeasured = 0, // On the machine itself, or on the model.
  kStated = 1,   // Somebody else's: a data sheet, a published measurement of such a machine.
  kDerived = 2,  // Computed from numbers that were measured or stated.
  kAssumed = 3,  // A guess with a reason.
};

/// "measured", "stated", "derived", "assumed".
constexpr std::string_view originName(Origin origin) {
  constexpr std::array<std::string_view, 4> kNames = {"measured", "stated", "derived", "assumed"};
  return kNames[static_cast<size_t>(origin)];
}

/// The worse of the two: what is computed from both.
constexpr Origin worseOf(Origin a, Origin b) {
  return std::max(a, b);
}

} // namespace moert
