#include "runtime/chat/Operators.h"

#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/Object.h"
#include "runtime/chat/Printing.h"
#include "runtime/chat/PythonText.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <cmath>

namespace moert::chat {

namespace {

Result<bool> areEqualLists(const Sequence &left, const Sequence &right, Allowance &allowance) {
  // Views and generators are compared by identity in Python; lists, tuples and ranges by content.
  if (&left == &right)
    return true;
  if (left.kind != right.kind || !left.hasSubscripts() || left.items.size() != right.items.size())
    return false;
  for (size_t i = 0; i < left.items.size(); ++i) {
    MOERT_ASSIGN_OR_RETURN(bool isSame, isEqual(left.items[i], right.items[i], allowance));
    if (!isSame)
      return false;
  }
  return true;
}

Result<bool> areEqualDicts(const Dict &left, const Dict &right, Allowance &allowance) {
  if (left.entries.size() != right.entries.size())
    return false;
  for (const auto &[key, place] : left.index) {
    const Value *other = right.find(key);
    if (!other)
      return false;
    MOERT_ASSIGN_OR_RETURN(bool isSame, isEqual(left.entries[place].second, *other, allowance));
    if (!isSame)
      return false;
  }
  return true;
}

Result<bool> isLessList(const Sequence &left, const Sequence &right, Allowance &allowance) {
  const size_t common = std::min(left.items.size(), right.items.size());
  for (size_t i = 0; i < common; ++i) {
    MOERT_ASSIGN_OR_RETURN(bool isSame, isEqual(left.items[i], right.items[i], allowance));
    if (!isSame)
      return isLess(left.items[i], right.items[i], allowance);
  }
  return left.items.size() < right.items.size();
}

bool isOrderedSequence(const Value &left, const Value &right) {
  return left.isSequence() && right.isSequence() &&
         left.sequence()->kind == right.sequence()->kind &&
         left.sequence()->kind <= SequenceKind::kTuple;
}

// Merges two sorted runs of `from` into `to`; equal values keep their order, also in reverse.
Status mergeRuns(const std::vector<Value> &values, bool reverse, const std::vector<size_t> &from,
                 size_t begin, size_t middle, size_t end, std::vector<size_t> &to,
                 Allowance &allowance) {
  size_t left = begin, right = middle;
  for (size_t out = begin; out < end; ++out) {
    bool takesRight = left == middle;
    if (left < middle && right < end) {
      const Value &first = values[from[left]], &second = values[from[right]];
      MOERT_ASSIGN_OR_RETURN(takesRight, reverse ? isLess(first, second, allowance)
                                                 : isLess(second, first, allowance));
    }
    to[out] = from[takesRight ? right++ : left++];
  }
  return {};
}

} // namespace

Status requireDefined(const Value &value) {
  return value.isUndefined() ? invalidInput(value.undefinedReason()) : Status();
}

Result<bool> isEqual(const Value &left, const Value &right, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spend(1 + std::min(left.weight(), right.weight())));
  if (left.isNumber() && right.isNumber())
    return compareNumbers(left, right) == std::partial_ordering::equivalent;
  if (left.kind() != right.kind())
    return false;
  switch (left.kind()) {
  case Kind::kText:
    return left.text() == right.text();
  case Kind::kSequence:
    return areEqualLists(*left.sequence(), *right.sequence(), allowance);
  case Kind::kDict:
    return areEqualDicts(*left.dict(), *right.dict(), allowance);
  case Kind::kObject:
    return left.object() == right.object();
  default:
    return true; // Both None, or both undefined.
  }
}

Result<bool> isLess(const Value &left, const Value &right, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spend(1 + std::min(left.weight(), right.weight())));
  MOERT_RETURN_IF_ERROR(requireDefined(left));
  MOERT_RETURN_IF_ERROR(requireDefined(right));
  if (left.isNumber() && right.isNumber())
    return compareNumbers(left, right) == std::partial_ordering::less;
  if (left.isText() && right.isText())
    return left.text() < right.text(); // The order of UTF-8 is that of code points.
  if (isOrderedSequence(left, right))
    return isLessList(*left.sequence(), *right.sequence(), allowance);
  return invalidInput("'<' not supported between instances of '", left.typeName(), "' and '",
                      right.typeName(), "'");
}

Result<bool> contains(const Value &container, const Value &item, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spend(1 + container.weight()));
  if (container.isText()) {
    if (!item.isText())
      return invalidInput("'in <string>' requires string as left operand, not ", item.typeName());
    return findText(container.text(), item.text()) != std::string_view::npos;
  }
  if (container.isDict()) {
    MOERT_ASSIGN_OR_RETURN(std::string key, hashKey(item, allowance));
    return container.dict()->find(key) != nullptr;
  }
  if (!container.isSequence() && !container.isUndefined())
    return invalidInput("argument of type '", container.typeName(), "' is not iterable");
  MOERT_ASSIGN_OR_RETURN(SequencePtr elements, iterate(container, allowance));
  for (const Value &element : elements->items) {
    MOERT_ASSIGN_OR_RETURN(bool isSame, isEqual(element, item, allowance));
    if (isSame)
      return true;
  }
  return false;
}

Result<bool> compare(CompareOperator op, const Value &left, const Value &right,
                     Allowance &allowance) {
  switch (op) {
  case CompareOperator::kEqual:
    return isEqual(left, right, allowance);
  case CompareOperator::kNotEqual: {
    MOERT_ASSIGN_OR_RETURN(bool isSame, isEqual(left, right, allowance));
    return !isSame;
  }
  case CompareOperator::kLess:
    return isLess(left, right, allowance);
  case CompareOperator::kGreater:
    return isLess(right, left, allowance);
  case CompareOperator::kIn:
    return contains(right, left, allowance);
  case CompareOperator::kNotIn: {
    MOERT_ASSIGN_OR_RETURN(bool isIn, contains(right, left, allowance));
    return !isIn;
  }
  case CompareOperator::kLessEqual:
  case CompareOperator::kGreaterEqual:
    break;
  }
  // Not the negation of the opposite: NaN is neither less nor greater nor equal.
  const bool isLessEqual = op == CompareOperator::kLessEqual;
  MOERT_ASSIGN_OR_RETURN(bool isBefore, isLessEqual ? isLess(left, right, allowance)
                                                    : isLess(right, left, allowance));
  return isBefore ? Result<bool>(true) : isEqual(left, right, allowance);
}

Result<std::vector<size_t>> sortedOrder(const std::vector<Value> &values, bool reverse,
                                        Allowance &allowance) {
  std::vector<size_t> order(values.size()), merged(values.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  for (size_t run = 1; run < order.size(); run *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * run) {
      const size_t middle = std::min(begin + run, order.size());
      const size_t end = std::min(begin + 2 * run, order.size());
      MOERT_RETURN_IF_ERROR(
          mergeRuns(values, reverse, order, begin, middle, end, merged, allowance));
    }
    order.swap(merged);
  }
  return order;
}

// The first letter keeps kinds apart. An integral float equals the integer.
Result<std::string> hashKey(const Value &value, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spendBytes(value.isText() ? value.text().size() : 0));
  switch (value.kind()) {
  case Kind::kUndefined:
    return std::string("u");
  case Kind::kNone:
    return std::string("n");
  case Kind::kBoolean:
  case Kind::kInteger:
    return "i" + std::to_string(value.integer());
  case Kind::kFloat: {
    const std::optional<int64_t> whole = wholeNumber(value.number());
    return whole ? "i" + std::to_string(*whole) : "f" + floatText(value.number());
  }
  case Kind::kText:
    return textKey(value.text());
  case Kind::kSequence: {
    if (value.sequence()->kind != SequenceKind::kTuple)
      break;
    std::string key = "t";
    for (const Value &item : value.sequence()->items) {
      MOERT_ASSIGN_OR_RETURN(std::string part, hashKey(item, allowance));
      MOERT_RETURN_IF_ERROR(allowance.spendBytes(part.size()));
      key += std::to_string(part.size()) + ":" + part;
    }
    return key;
  }
  default:
    break;
  }
  return invalidInput("unhashable type: '", value.typeName(), "'");
}

static Result<SequencePtr> charactersOf(const std::string &text, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spend(4 * text.size())); // Each becomes a value of its own.
  auto sequence = std::make_shared<Sequence>();
  for (size_t at = 0; at < text.size();) {
    const uint32_t length = utf8Length(text[at]);
    sequence->items.push_back(Value::ofText(text.substr(at, length)));
    at += length;
  }
  return SequencePtr(std::move(sequence));
}

Result<SequencePtr> iterate(const Value &value, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spend(1));
  if (value.isText())
    return charactersOf(value.text(), allowance);
  if (value.isSequence() && value.sequence()->hasLength())
    return value.sequence();
  auto elements = std::make_shared<Sequence>();
  if (value.isSequence()) {
    const Sequence &generator = *value.sequence();
    MOERT_RETURN_IF_ERROR(allowance.spend(generator.items.size() - generator.position));
    elements->items.assign(generator.items.begin() + static_cast<ptrdiff_t>(generator.position),
                           generator.items.end());
    elements->depth = generator.depth;
    generator.position = generator.items.size();
  } else if (value.isDict()) {
    MOERT_RETURN_IF_ERROR(allowance.spend(value.dict()->entries.size()));
    for (const auto &entry : value.dict()->entries)
      elements->items.push_back(entry.first);
    elements->depth = value.dict()->depth;
  } else if (!value.isUndefined()) {
    return invalidInput("'", value.typeName(), "' object is not iterable");
  }
  return SequencePtr(std::move(elements));
}

} // namespace moert::chat
