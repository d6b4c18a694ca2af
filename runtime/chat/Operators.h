// Python's operators on values. Errors have Python's words.
#pragma once

#include "runtime/chat/Allowance.h"
#include "runtime/chat/Value.h"

namespace moert::chat {

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class CompareOperator {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

Result<Value> applyBinary(BinaryOperator op, const Value &left, const Value &right,
                          Allowance &allowance);
Result<Value> negate(const Value &value);
Result<bool> compare(CompareOperator op, const Value &left, const Value &right,
                     Allowance &allowance);

Result<bool> isEqual(const Value &left, const Value &right, Allowance &allowance);
/// Whether left < right; an error if they have no order.
Result<bool> isLess(const Value &left, const Value &right, Allowance &allowance);
/// Whether Python's `item in container` holds.
Result<bool> contains(const Value &container, const Value &item, Allowance &allowance);

/// The stable order of values: the places of the smallest, the next, and so on.
Result<std::vector<size_t>> sortedOrder(const std::vector<Value> &values, bool reverse,
                                        Allowance &allowance);

/// Equal for equal values: what a dictionary finds its entries by. Lists and dictionaries have
/// none.
Result<std::string> hashKey(const Value &value, Allowance &allowance);

/// The elements of anything that can be iterated over. Reads a generator to its end.
Result<SequencePtr> iterate(const Value &value, Allowance &allowance);

/// Fails if the value is undefined.
Status requireDefined(const Value &value);

/// printf-style formatting: format % values. `values` are taken in order, or by name from `named`.
Result<Value> formatPercent(const std::string &format, const std::vector<Value> &values,
                            const Dict *named, Allowance &allowance);

} // namespace moert::chat
