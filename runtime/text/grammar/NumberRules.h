// Rules for JSON's numbers between bounds that are multiples of others.
#pragma once

#include "runtime/text/grammar/JsonRules.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// The value -whole.fraction or whole.fraction, exact. Zeros before and after are left out, so that
/// `whole` of 0.5 is empty.
struct Decimal {
  bool isNegative = false;
  std::string whole, fraction;

  /// From a JSON number; absent with more than 400 digits.
  static std::optional<Decimal> of(std::string_view json);
  std::strong_ordering operator<=>(const Decimal &other) const;
  bool operator==(const Decimal &other) const = default;
};

struct NumberRange {
  struct Bound {
    Decimal value;
    bool isExcluded = false;
  };
  std::optional<Bound> least, most;
  /// A number times 10^scale is a multiple of `step`; absent: any number.
  struct Multiple {
    uint64_t step = 1;
    uint32_t scale = 0;
  };
  std::optional<Multiple> multiple = {};

  /// Adds a bound where it is narrower.
  void addLeast(const Bound &bound);
  void addMost(const Bound &bound);
  /// Returns false if the numbers have more digits than are followed.
  bool addMultiple(const Decimal &of);
  bool has(const Decimal &value) const;
};

/// Without an exponent, with at most 16 digits before and after the point, or as many as the bounds
/// have. Absent if the rules would be too many; a rule without alternatives if no number fits.
std::optional<uint32_t> ruleOfNumbers(const JsonRules &rules, const NumberRange &range);

} // namespace moert
