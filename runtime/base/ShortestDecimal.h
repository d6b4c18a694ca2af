// Decimals of a double that read back as the same value. Not std::to_chars, whose tables add 130
// KiB to a program that has to be small.
#pragma once

#include <string>

namespace moert {

/// Significant digits with which the finite `value` reads back: 15 to 17 for a normal number, of
/// which zeros at the end can be removed, and as few as possible for a subnormal one. For some
/// powers of two it is 17 where 16 other digits than the nearest ones would do.
int shortestDigits(double value);

enum class DecimalForm { kGeneral, kScientific, kFixed }; // %g, %e, %f

/// With a decimal point whatever the locale is.
std::string decimalText(double value, DecimalForm form, int precision);

} // namespace moert
