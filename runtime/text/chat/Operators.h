// Python's operators on values. Errors have Python's words.
#pragma once

#include "runtime/text/chat/Allowance.h"
#include "runtime/text/chat/Value.h"

#include <compare>
#include <optional>

namespace moert::chat {

enum class Operator {
  kOr,
  kAnd,
  kNot,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
  kAdd,
  kSubtract,
  kConcatenate,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kMinus, // This and the next take one value.
  kPlus,
};

/// An operator of two values other than `or` and `and`, which may not need the second.
Result<Value> applyBinary(Operator op, const Value &left, const Value &right, Allowance &allowance);
Result<Value> negate(const Value &value);

Result<bool> isEqual(const Value &left, const Value &right, Allowance &allowance);
/// Whether left < right of two numbers or two texts; null for others.
std::optional<bool> isBefore(const Value &left, const Value &right);
/// Whether left < right; an error if they have no order.
Result<bool> isLess(const Value &left, const Value &right, Allowance &allowance);
/// Whether Python's `item in container` holds.
Result<bool> contains(const Value &container, const Value &item, Allowance &allowance);

/// Equal for equal values: what a dictionary finds its entries by. Only texts, integers, booleans
/// and None may be keys.
Result<std::string> hashKey(const Value &value, Allowance &allowance);

/// The elements of anything that can be iterated over. Reads a generator to its end.
Result<SequencePtr> iterate(const Value &value, Allowance &allowance);

/// The value as a text: Python's str().
Result<Value> toText(const Value &value, Allowance &allowance);

/// Compares two numbers, without rounding an integer.
std::partial_ordering compareNumbers(const Value &left, const Value &right);

/// What Python's int(text) or else float(text) reads; null if neither accepts it.
Result<std::optional<Value>> parseNumber(std::string_view text);

/// The integer part of a finite float.
Result<int64_t> integerPart(double number);

/// Integers have 64 bits; one that needs more is this error.
Status integerOverflow();

/// Fails if the value is undefined.
Status requireDefined(const Value &value);

/// The error for what jinja2 has and this interpreter does not: `what` names it.
template <typename... Parts> Status notSupported(const Parts &...what) {
  return invalidInput(what..., " is not supported");
}

} // namespace moert::chat
