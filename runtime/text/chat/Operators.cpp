#include "runtime/text/chat/Operators.h"

#include "runtime/text/chat/Object.h"
#include "runtime/text/chat/Printing.h"
#include "runtime/text/chat/PythonText.h"

#include "runtime/base/Utf8.h"

#include <algorithm>

namespace moert::chat {

namespace {

Result<bool> areEqualLists(const Sequence &left, const Sequence &right, Allowance &allowance) {
  // Generators are compared by identity in Python; lists, tuples and ranges by content.
  if (&left == &right)
    return true;
  if (left.kind == SequenceKind::kView && right.kind == SequenceKind::kView)
    return notSupported("comparing what keys(), values() and items() return");
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

} // namespace

Status requireDefined(const Value &value) {
  return value.isUndefined() ? invalidInput(value.undefinedReason()) : Status();
}

Result<Value> toText(const Value &value, Allowance &allowance) {
  if (value.isText())
    return value;
  TextBuilder text(allowance);
  MOERT_RETURN_IF_ERROR(appendText(value, text));
  return std::move(text).finish();
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

std::optional<bool> isBefore(const Value &left, const Value &right) {
  if (left.isNumber() && right.isNumber())
    return compareNumbers(left, right) == std::partial_ordering::less;
  if (left.isText() && right.isText())
    return left.text() < right.text(); // The order of UTF-8 is that of code points.
  return std::nullopt;
}

Result<bool> isLess(const Value &left, const Value &right, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spend(1 + std::min(left.weight(), right.weight())));
  MOERT_RETURN_IF_ERROR(requireDefined(left));
  MOERT_RETURN_IF_ERROR(requireDefined(right));
  if (const std::optional<bool> isLeftFirst = isBefore(left, right))
    return *isLeftFirst;
  if (left.isSequence() && right.isSequence())
    return notSupported("the order of lists");
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

// The first letter keeps kinds apart.
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
  case Kind::kText:
    return textKey(value.text());
  case Kind::kFloat:
    return notSupported("a float as a key");
  case Kind::kSequence:
    if (value.sequence()->kind == SequenceKind::kTuple)
      return notSupported("a tuple as a key");
    break;
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
