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

/// left op right of two numbers.
Result<Value> calculate(Operator op, const Value &left, const Value &right);

/// What Python's int(text) or else float(text) reads; null if neither accepts it.
Result<std::optional<Value>> parseNumber(std::string_view text);

/// The integer part of a finite float.
Result<int64_t> integerPart(double number);

Status integerOverflow();

} // namespace moert::chat
