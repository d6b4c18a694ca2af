#include "runtime/base/ShortestDecimal.h"

#include <cmath>
#include <limits>
#include <locale>
#include <sstream>

namespace moert {

std::string decimalText(double value, DecimalForm form, int precision) {
  std::ostringstream text;
  text.exceptions(std::ios::badbit); // Without memory it would be cut.
  text.imbue(std::locale::classic());
  if (form == DecimalForm::kScientific)
    text << std::scientific;
  if (form == DecimalForm::kFixed)
    text << std::fixed;
  text.precision(precision);
  text << value;
  return text.str();
}

int shortestDigits(double value) {
  using Limits = std::numeric_limits<double>;
  // Every normal number keeps 15 digits; zeros after fewer ones can be removed.
  const bool isNormal = std::abs(value) >= Limits::min();
  for (int digits = isNormal ? Limits::digits10 : 1; digits < Limits::max_digits10; ++digits) {
    std::istringstream reader(decimalText(value, DecimalForm::kGeneral, digits));
    reader.imbue(std::locale::classic());
    double readBack = 0;
    if (reader >> readBack && readBack == value)
      return digits;
  }
  return Limits::max_digits10;
}

} // namespace moert
