#include "runtime/base/Size.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace moert {

namespace {

struct Unit {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<Unit, 13> kUnits = {{{"B", 1},
                                          {"KiB", uint64_t(1) << 10},
                                          {"MiB", uint64_t(1) << 20},
                                          {"GiB", uint64_t(1) << 30},
                                          {"TiB", uint64_t(1) << 40},
                                          {"K", uint64_t(1) << 10},
                                          {"M", uint64_t(1) << 20},
                                          {"G", uint64_t(1) << 30},
                                          {"T", uint64_t(1) << 40},
                                          {"KB", 1000},
                                          {"MB", 1000'000},
                                          {"GB", 1000'000'000},
                                          {"TB", 1000'000'000'000}}};

// A decimal number in parts, so that the conversion to bytes involves no rounding of the input.
struct Decimal {
  uint64_t whole = 0;
  uint64_t fraction = 0; // In units of 1 / fractionScale.
  uint64_t fractionScale = 1;
};
// Six digits of a TiB's fraction still multiply within 64 bits (10^6 * 2^40 < 2^60).
constexpr size_t kMaxFractionDigits = 6;

} // namespace

static bool isSameUnit(std::string_view one, std::string_view other) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; };
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

static Status refuse(std::string_view text, std::string_view why) {
  return invalidInput("size '", excerpt(text), "': ", why,
                      "; expected a number and a unit such as 4096B, 512MiB, 6GiB or 25%");
}

// Takes the number off the front of rest.
static Result<Decimal> takeDecimal(std::string_view text, std::string_view &rest) {
  Decimal number;
  if (rest.empty() || !isAsciiDigit(rest.front()))
    return refuse(text, "it does not begin with a number");
  for (; !rest.empty() && isAsciiDigit(rest.front()); rest.remove_prefix(1)) {
    auto tens = checkedMultiply(number.whole, 10);
    auto sum = tens ? checkedAdd(*tens, uint64_t(rest.front() - '0')) : std::nullopt;
    if (!sum)
      return refuse(text, "the number is too large");
    number.whole = *sum;
  }
  if (rest.empty() || rest.front() != '.')
    return number;
  rest.remove_prefix(1);
  size_t digits = 0;
  for (; !rest.empty() && isAsciiDigit(rest.front()); rest.remove_prefix(1), ++digits) {
    if (digits == kMaxFractionDigits)
      return refuse(text, "more than six digits follow the point");
    number.fraction = number.fraction * 10 + uint64_t(rest.front() - '0');
    number.fractionScale *= 10;
  }
  if (digits == 0)
    return refuse(text, "no digit follows the point");
  return number;
}

Result<Size> parseSize(std::string_view text) {
  std::string_view rest = text;
  MOERT_ASSIGN_OR_RETURN(Decimal number, takeDecimal(text, rest));
  Size size;
  if (rest == "%") {
    double percent = double(number.whole) + double(number.fraction) / double(number.fractionScale);
    if (percent <= 0 || percent > 100)
      return refuse(text, "a percentage must be above 0% and at most 100%");
    size.fraction = percent / 100;
    return size;
  }
  if (rest.empty())
    return refuse(text, strCat("the unit is missing, such as ", excerpt(text), "GiB"));
  if (rest.front() == '%')
    return refuse(text, strCat("'", excerpt(rest.substr(1)), "' follows the %"));
  for (const Unit &unit : kUnits) {
    if (!isSameUnit(rest, unit.name))
      continue;
    auto whole = checkedMultiply(number.whole, unit.bytes);
    auto bytes = whole ? checkedAdd(*whole, number.fraction * unit.bytes / number.fractionScale)
                       : std::nullopt;
    if (!bytes)
      return refuse(text, "the number is too large");
    if (*bytes == 0)
      return refuse(text, "a size must be above 0 bytes");
    size.bytes = *bytes;
    return size;
  }
  return refuse(
      text, strCat("'", excerpt(rest), "' is not a unit (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB)"));
}

std::string formatBytes(uint64_t bytes) {
  constexpr const char *kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024)
    return strCat(bytes, " B");
  double value = double(bytes);
  size_t unit = 0;
  // 1023.5 would print as 1024: it is the next unit's 1.00.
  for (; value >= 1023.5; ++unit)
    value /= 1024;
  char text[32];
  int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::snprintf(text, sizeof(text), "%.*f %s", decimals, value, kNames[unit]);
  return text;
}

std::string formatExactBytes(uint64_t bytes) {
  return strCat(bytes, " bytes (", formatBytes(bytes), ")");
}

} // namespace moert
