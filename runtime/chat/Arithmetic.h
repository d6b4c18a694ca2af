// Python's numbers, as far as 64-bit integers and doubles go. An integer that needs more bits is an
// error.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/chat/Operators.h"
#include "runtime/chat/Value.h"

#include <compare>
#include <optional>

namespace moert::chat {

/// Compares two numbers, without rounding an integer.
std::partial_ordering compareNumbers(const Value &left, const Value &right);

/// The number as an integer, if it is one.
std::optional<int64_t> wholeNumber(double number);

/// left op right of two numbers.
Result<Value> calculate(BinaryOperator op, const Value &left, const Value &right);

/// Python's round(number, digits) of a float.
double roundToDigits(double number, int64_t digits);

/// What Python's int(text, base) and float(text) accept.
std::optional<Result<int64_t>> parseInteger(std::string_view text, int64_t base);
std::optional<double> parseFloat(std::string_view text);

Status integerOverflow();

} // namespace moert::chat
