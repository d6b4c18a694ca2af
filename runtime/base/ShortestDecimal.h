// Decimals of a double that read back as the same value. Not std::to_chars, whose tables add 130
// KiB to a program that has to be small.
#pragma once

#include <string>

namespace moert {

/// Significant digits that suffice for `value`, which is finite: as few as possible, but for some
/// powers of two 17 instead of 16.
int shortestDigits(double value);

enum class DecimalForm { kGeneral, kScientific, kFixed }; // %g, %e, %f

/// With a decimal point whatever the locale is.
std::string decimalText(double value, DecimalForm form, int precision);

} // namespace moert
