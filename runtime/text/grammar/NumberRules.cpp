// Numbers are generated digit by digit: first the whole ones of each length, since bounds are
// compared from the first digit on, then the fraction.
#include "runtime/text/grammar/NumberRules.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <tuple>

namespace moert {

namespace {

constexpr int kMostDigits = 400; // In a bound: those of a double, with its exponent.
constexpr uint64_t kMostStep = 1'000'000;
constexpr size_t kMostScale = 18;    // Digits of a divisor.
constexpr size_t kMostStates = 1024; // With a step for each digit, half of a grammar's elements.
constexpr uint32_t kExactDigits = 15;

using Sequence = Grammar::Sequence;
using Bound = NumberRange::Bound;

/// Builds numbers of one sign, digit by digit. A state is what of the number may still follow: so
/// many digits, the rest of a bound as long as the digits so far are the bound's, and the remainder
/// of the digits so far.
class DigitRules {
public:
  /// Bounds of the absolute value; least: at least 0.
  DigitRules(const JsonRules &jsonRules, const NumberRange &numbers, const Bound &lower,
             const std::optional<Bound> &upper)
      : rules(jsonRules), multiple(numbers.multiple), least(lower), most(upper) {
    uint32_t whole = 0, fraction = 0;
    for (const Bound *bound : {&least, most ? &*most : nullptr})
      if (bound) {
        whole = std::max(whole, static_cast<uint32_t>(bound->value.whole.size()));
        fraction = std::max(fraction, static_cast<uint32_t>(bound->value.fraction.size()) + 1);
      }
    // A double keeps so many digits: with more, what a program reads may be the bound.
    const uint32_t scale = multiple ? multiple->scale : 0;
    mostWhole = std::max(scale == 0 ? kDigits : kExactDigits - std::min(scale, kExactDigits - 1),
                         whole + 1);
    mostFraction =
        multiple ? scale : std::max(kExactDigits - std::min(whole, kExactDigits), fraction);
  }

  bool addTo(uint32_t rule, const Sequence &sign) {
    for (wholeDigits = 1; wholeDigits <= mostWhole && !isTooLarge; ++wholeDigits) {
      const size_t lower = std::max<size_t>(least.value.whole.size(), 1);
      const size_t upper = most ? std::max<size_t>(most->value.whole.size(), 1) : wholeDigits + 1;
      if (wholeDigits < lower || wholeDigits > upper)
        continue;
      rules.grammar.addAlternative(
          rule,
          JsonRules::join(
              {sign, JsonRules::one(ruleOf({0, wholeDigits == lower, wholeDigits == upper, 0}))}));
    }
    return !isTooLarge;
  }

private:
  struct State {
    uint32_t digits; // So far.
    bool isLeast, isMost;
    uint64_t remainder;
  };

  /// The digit of a bound; zeros follow its last one.
  uint32_t digitOf(const Decimal &value, uint32_t digit) const {
    const size_t padding = wholeDigits - std::min<size_t>(value.whole.size(), wholeDigits);
    if (digit < wholeDigits)
      return digit < padding ? 0 : static_cast<uint32_t>(value.whole[digit - padding] - '0');
    const size_t place = digit - wholeDigits;
    return place < value.fraction.size() ? static_cast<uint32_t>(value.fraction[place] - '0') : 0;
  }
  bool hasZerosFrom(const Decimal &value, uint32_t digit) const {
    for (; digit < wholeDigits + value.fraction.size(); ++digit)
      if (digitOf(value, digit) != 0)
        return false;
    return true;
  }

  /// What the digits so far are divided by: later ones can change the rest.
  uint64_t divisorAfter(uint32_t digits) const {
    uint64_t power = 1;
    const uint32_t left = wholeDigits + multiple->scale - digits;
    for (uint32_t i = 0; i < std::min(left, 20u); ++i)
      power = power * 10 % multiple->step;
    return multiple->step / std::gcd(multiple->step, power);
  }

  bool canEnd(const State &state) const {
    if (state.isLeast && (least.isExcluded || !hasZerosFrom(least.value, state.digits)))
      return false;
    if (state.isMost && most->isExcluded && hasZerosFrom(most->value, state.digits))
      return false;
    return state.remainder == 0;
  }

  uint32_t ruleOf(const State &state) {
    // Numbers of all lengths share the states without a bound.
    const bool isShared = !state.isLeast && !state.isMost && state.digits > 0;
    const Key key = {isShared ? 0 : wholeDigits,
                     static_cast<int>(state.digits) - static_cast<int>(isShared ? wholeDigits : 0),
                     state.isLeast, state.isMost, state.remainder};
    if (const auto known = states.find(key); known != states.end())
      return known->second;
    const uint32_t rule = rules.newRule({});
    states[key] = rule;
    isTooLarge = isTooLarge || states.size() > kMostStates;
    if (isTooLarge)
      return rule;
    if (state.digits >= wholeDigits && canEnd(state))
      rules.grammar.addAlternative(rule, {});
    if (state.digits < wholeDigits + mostFraction)
      addDigits(rule, state);
    return rule;
  }

  void addDigits(uint32_t rule, const State &state) {
    const bool beginsNumber = state.digits == 0 && wholeDigits > 1;
    const uint32_t first = state.isLeast ? digitOf(least.value, state.digits) : 0;
    const uint32_t last = state.isMost ? digitOf(most->value, state.digits) : 9;
    std::map<uint32_t, ByteSet> byRest;
    for (uint32_t digit = std::max(first, beginsNumber ? 1u : 0u); digit <= last; ++digit) {
      State next = {state.digits + 1, state.isLeast && digit == first,
                    state.isMost && digit == last, 0};
      if (multiple)
        next.remainder = (state.remainder * 10 + digit) % divisorAfter(next.digits);
      if (next.remainder != 0 && next.digits == wholeDigits + mostFraction)
        continue; // No digit follows that could change it.
      byRest[ruleOf(next)].add(static_cast<unsigned char>('0' + digit));
    }
    for (const auto &[rest, digits] : byRest) {
      Sequence sequence = state.digits == wholeDigits ? rules.text(".") : Sequence();
      sequence.push_back(rules.grammar.bytes(digits));
      sequence.push_back(Grammar::ruleOf(rest));
      rules.grammar.addAlternative(rule, sequence);
    }
  }

  using Key = std::tuple<uint32_t, int, bool, bool, uint64_t>;
  const JsonRules &rules;
  const std::optional<NumberRange::Multiple> multiple;
  const Bound least;
  const std::optional<Bound> most;
  uint32_t mostWhole = 0, mostFraction = 0, wholeDigits = 0;
  bool isTooLarge = false;
  std::map<Key, uint32_t> states;
};

Bound absolute(Bound bound) {
  bound.value.isNegative = false;
  return bound;
}

} // namespace

std::optional<Decimal> Decimal::of(std::string_view json) {
  Decimal decimal;
  decimal.isNegative = json.starts_with("-");
  json.remove_prefix(decimal.isNegative ? 1 : 0);
  const size_t mantissaEnd = std::min(json.find_first_of("eE"), json.size());
  int exponent = 0;
  std::string_view power = json.substr(std::min(mantissaEnd + 1, json.size()));
  power.remove_prefix(power.starts_with("+") ? 1 : 0);
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  std::string digits(json.substr(0, mantissaEnd));
  size_t point = std::min(digits.find('.'), digits.size());
  digits.erase(point, 1);
  if (digits.size() > kMostDigits || exponent > kMostDigits || exponent < -kMostDigits)
    return {};
  digits.insert(0, static_cast<size_t>(kMostDigits), '0');
  digits.append(static_cast<size_t>(kMostDigits), '0');
  point += static_cast<size_t>(kMostDigits + exponent);
  decimal.whole = digits.substr(0, point);
  decimal.fraction = digits.substr(point);
  decimal.whole.erase(0, decimal.whole.find_first_not_of('0'));
  decimal.fraction.erase(decimal.fraction.find_last_not_of('0') + 1);
  if (decimal.whole.empty() && decimal.fraction.empty())
    decimal.isNegative = false;
  return decimal;
}

std::strong_ordering Decimal::operator<=>(const Decimal &other) const {
  if (isNegative != other.isNegative)
    return isNegative ? std::strong_ordering::less : std::strong_ordering::greater;
  const auto larger =
      std::tuple(whole.size(), std::string_view(whole), std::string_view(fraction)) <=>
      std::tuple(other.whole.size(), std::string_view(other.whole),
                 std::string_view(other.fraction));
  return isNegative ? 0 <=> larger : larger;
}

void NumberRange::addLeast(const Bound &bound) {
  if (!least || least->value < bound.value || (least->value == bound.value && bound.isExcluded))
    least = bound;
}

void NumberRange::addMost(const Bound &bound) {
  if (!most || bound.value < most->value || (most->value == bound.value && bound.isExcluded))
    most = bound;
}

bool NumberRange::addMultiple(const Decimal &of) {
  const uint32_t scale = static_cast<uint32_t>(of.fraction.size());
  if (of.whole.size() + scale > kMostScale)
    return false;
  uint64_t step = std::stoull("0" + of.whole + of.fraction);
  Multiple both = multiple.value_or(Multiple{0, scale});
  while (both.scale < scale && both.step <= kMostStep) {
    both.step *= 10;
    ++both.scale;
  }
  for (uint32_t i = scale; i < both.scale && step <= kMostStep; ++i)
    step *= 10;
  if (step == 0 || step > kMostStep || both.step > kMostStep)
    return false;
  if (both.step != 0)
    step = std::lcm(step, both.step);
  if (step > kMostStep)
    return false;
  multiple = {step, both.scale};
  return true;
}

bool NumberRange::has(const Decimal &value) const {
  if (least && (value < least->value || (least->isExcluded && value == least->value)))
    return false;
  if (most && (most->value < value || (most->isExcluded && value == most->value)))
    return false;
  if (!multiple)
    return true;
  uint64_t remainder = 0;
  for (char digit : value.whole)
    remainder = (remainder * 10 + static_cast<uint64_t>(digit - '0')) % multiple->step;
  for (uint32_t i = 0; i < multiple->scale; ++i)
    remainder = (remainder * 10 +
                 (i < value.fraction.size() ? static_cast<uint64_t>(value.fraction[i] - '0') : 0)) %
                multiple->step;
  return remainder == 0 && value.fraction.size() <= multiple->scale;
}

std::optional<uint32_t> ruleOfNumbers(const JsonRules &rules, const NumberRange &range) {
  const uint32_t rule = rules.newRule({});
  const bool mayBePositive = !range.most || !range.most->value.isNegative;
  const bool mayBeNegative = !range.least || range.least->value.isNegative;
  if (mayBePositive) {
    const bool isAbove = range.least && !range.least->value.isNegative;
    if (!DigitRules(rules, range, isAbove ? *range.least : Bound(), range.most).addTo(rule, {}))
      return {};
  }
  if (mayBeNegative) {
    const bool isBelow = range.most && range.most->value.isNegative;
    const Bound nearest = isBelow ? absolute(*range.most) : Bound{{}, true};
    const std::optional<Bound> farthest =
        range.least ? std::optional(absolute(*range.least)) : std::nullopt;
    if (!DigitRules(rules, range, nearest, farthest).addTo(rule, rules.text("-")))
      return {};
  }
  return rule;
}

} // namespace moert
