// The expressions of a template; declared in Evaluator.h.
#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/chat/Builtins.h"
#include "runtime/text/chat/Evaluator.h"
#include "runtime/text/chat/PythonText.h"

#include <algorithm>

namespace moert::chat {

Result<Value> Evaluator::evaluate(const Expression &expression) {
  const uint32_t outerLine = line;
  MOERT_RETURN_IF_ERROR(enter(expression.line));
  Result<Value> value = std::visit(
      [&](const auto &node) { return evaluateNode(node, expression.children); }, expression.node);
  --depth;
  if (value.isOk())
    line = outerLine;
  return value;
}

Result<std::vector<Value>> Evaluator::evaluateAll(std::span<const ExpressionPtr> expressions) {
  std::vector<Value> values;
  for (const ExpressionPtr &expression : expressions) {
    MOERT_ASSIGN_OR_RETURN(Value value, evaluate(*expression));
    values.push_back(std::move(value));
  }
  return values;
}

static bool isOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<Value> Evaluator::lookUp(const std::string &name) {
  if (isOneOf(name, {"caller", "kwargs", "self", "super", "varargs"})) // No variable hides them.
    return notSupported("'", name, "'");
  for (const Scope *place = scope; place; place = place->parent) {
    auto found = place->variables.find(name);
    if (found != place->variables.end())
      return found->second;
  }
  if (const Value *value = context.findText(name))
    return *value;
  if (const Builtin *global = findGlobal(name))
    return allowance.object(std::make_shared<BoundBuiltin>(*global, Value()));
  if (isOneOf(name, {"cycler", "dict", "joiner", "lipsum"}))
    return notSupported("'", name, "'");
  return Value::undefined(strCat("'", name, "' is undefined"));
}

Result<Value> Evaluator::evaluateNode(const Name &name, const Expressions &) {
  return lookUp(name.name);
}

Result<Value> Evaluator::evaluateNode(const ListLiteral &list, const Expressions &items) {
  MOERT_ASSIGN_OR_RETURN(std::vector<Value> values, evaluateAll(items));
  return allowance.sequence(list.kind, std::move(values));
}

Result<Value> Evaluator::evaluateNode(const DictLiteral &, const Expressions &entries) {
  MOERT_ASSIGN_OR_RETURN(std::vector<Value> values, evaluateAll(entries));
  Dict dict;
  for (size_t i = 0; i < values.size(); i += 2) {
    MOERT_ASSIGN_OR_RETURN(std::string key, hashKey(values[i], allowance));
    dict.set(std::move(key), std::move(values[i]), std::move(values[i + 1]));
  }
  return allowance.dict(std::move(dict));
}

Result<Value> Evaluator::evaluateNode(const Operation &operation, const Expressions &operands) {
  MOERT_ASSIGN_OR_RETURN(const Value left, evaluate(*operands[0]));
  switch (operation.op) {
  case Operator::kOr:
  case Operator::kAnd:
    return left.isTrue() == (operation.op == Operator::kAnd) ? evaluate(*operands[1])
                                                             : Result<Value>(left);
  case Operator::kNot:
    return Value(!left.isTrue());
  case Operator::kMinus:
    return negate(left);
  case Operator::kPlus: {
    MOERT_ASSIGN_OR_RETURN(const Value negated, negate(left));
    return negate(negated);
  }
  default:
    break;
  }
  MOERT_ASSIGN_OR_RETURN(const Value right, evaluate(*operands[1]));
  return applyBinary(operation.op, left, right, allowance);
}

Result<Value> Evaluator::evaluateNode(const Conditional &, const Expressions &children) {
  MOERT_ASSIGN_OR_RETURN(const Value test, evaluate(*children[0]));
  if (test.isTrue())
    return evaluate(*children[1]);
  if (children[2])
    return evaluate(*children[2]);
  return Value::undefined("the inline if-expression evaluated to false and no else section was "
                          "defined");
}

Result<Value> Evaluator::evaluateNode(const Attribute &attribute, const Expressions &children) {
  MOERT_ASSIGN_OR_RETURN(const Value object, evaluate(*children[0]));
  return member(object, attribute.name);
}

Result<Value> Evaluator::evaluateNode(const Subscript &, const Expressions &children) {
  MOERT_ASSIGN_OR_RETURN(const Value object, evaluate(*children[0]));
  MOERT_ASSIGN_OR_RETURN(const Value index, evaluate(*children[1]));
  return element(object, index);
}

Result<Value> Evaluator::evaluateNode(const CallExpression &call, const Expressions &children) {
  MOERT_ASSIGN_OR_RETURN(const Value callee, evaluate(*children[0]));
  MOERT_ASSIGN_OR_RETURN(const Arguments arguments,
                         evaluateArguments(children, call.argumentNames));
  MOERT_RETURN_IF_ERROR(requireDefined(callee));
  if (callee.kind() != Kind::kObject)
    return invalidInput("'", callee.typeName(), "' object is not callable");
  return callee.object()->call(arguments, *this);
}

Result<Value> Evaluator::evaluateNode(const BuiltinExpression &node, const Expressions &children) {
  if (!node.builtin)
    return notSupported("the ", node.kind, " '", excerpt(node.name), "'");
  MOERT_ASSIGN_OR_RETURN(const Value input, evaluate(*children[0]));
  MOERT_ASSIGN_OR_RETURN(const Arguments arguments,
                         evaluateArguments(children, node.argumentNames));
  return callBuiltin(*node.builtin, input, arguments, *this);
}

Result<Arguments> Evaluator::evaluateArguments(const Expressions &children,
                                               const std::vector<std::string> &names) {
  Arguments arguments;
  const auto given = std::span(children).subspan(1);
  MOERT_ASSIGN_OR_RETURN(arguments.positional,
                         evaluateAll(given.first(given.size() - names.size())));
  MOERT_ASSIGN_OR_RETURN(std::vector<Value> named, evaluateAll(given.last(names.size())));
  for (size_t i = 0; i < names.size(); ++i)
    arguments.named.emplace_back(names[i], std::move(named[i]));
  return arguments;
}

// Attributes, elements and slices
// ------------------------------------------------------------------

namespace {

/// 'dict object' or 'None', as in jinja2's messages.
std::string describeObject(const Value &object) {
  return object.isNone() ? "'None'" : "'" + object.typeName() + " object'";
}

Value missing(const Value &object, std::string_view kind, std::string_view name) {
  return Value::undefined(strCat(describeObject(object), " has no ", kind, " ", name));
}

/// The attribute that Python's getattr() finds.
Result<std::optional<Value>> attributeOf(const Value &object, const std::string &name,
                                         Allowance &allowance) {
  using Found = std::optional<Value>;
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__"))
    return Found(Value::undefined(strCat("access to attribute '", excerpt(name), "' of '",
                                         object.typeName(), "' object is unsafe.")));
  if (object.kind() == Kind::kObject)
    return object.object()->attribute(name);
  MOERT_ASSIGN_OR_RETURN(const Builtin *method, findMethod(object, name));
  if (!method)
    return Found();
  MOERT_ASSIGN_OR_RETURN(Value bound,
                         allowance.object(std::make_shared<BoundBuiltin>(*method, object)));
  return Found(std::move(bound));
}

/// The place of an index that may count from the end.
std::optional<size_t> placeOf(int64_t index, size_t size) {
  const int64_t length = static_cast<int64_t>(size);
  if (index < -length || index >= length)
    return std::nullopt;
  return static_cast<size_t>(index < 0 ? index + length : index);
}

/// The element that Python's object[index] finds; null for its TypeError and LookupError.
Result<std::optional<Value>> elementOf(const Value &object, const Value &index,
                                       Allowance &allowance) {
  using Found = std::optional<Value>;
  if (object.isDict()) {
    if (index.isDict() || (index.isSequence() && index.sequence()->kind != SequenceKind::kTuple))
      return Found(); // Unhashable.
    MOERT_ASSIGN_OR_RETURN(const std::string key, hashKey(index, allowance));
    const Value *value = object.dict()->find(key);
    return value ? Found(*value) : Found();
  }
  if (!index.isIntegral())
    return Found();
  if (object.isSequence() && object.sequence()->hasSubscripts()) {
    const std::vector<Value> &items = object.sequence()->items;
    const std::optional<size_t> place = placeOf(index.integer(), items.size());
    return place ? Found(items[*place]) : Found();
  }
  if (!object.isText())
    return Found();
  const Text &text = object.textValue();
  const std::optional<size_t> place = placeOf(index.integer(), text.length);
  if (!place)
    return Found();
  if (!text.isAscii())
    MOERT_RETURN_IF_ERROR(allowance.spendBytes(text.bytes.size()));
  const size_t at = text.isAscii() ? *place : byteOfCharacter(text.bytes, *place);
  MOERT_ASSIGN_OR_RETURN(Value character,
                         allowance.text(text.bytes.substr(at, utf8Length(text.bytes[at]))));
  return Found(std::move(character));
}

/// What a slice takes: elements begin, begin + step, ... `count` of them.
struct SliceRange {
  int64_t begin;
  int64_t step;
  size_t count;
};

/// Python's rule for slices: bounds beyond the ends are cut, negative ones count from the end.
SliceRange sliceRange(const std::optional<int64_t> (&bounds)[3], size_t size) {
  const int64_t length = static_cast<int64_t>(size);
  const int64_t step = bounds[2].value_or(1);
  auto cut = [&](std::optional<int64_t> bound, int64_t otherwise) {
    if (!bound)
      return otherwise;
    const int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? length - 1 : length;
    const int64_t place = *bound < 0 ? std::max(*bound, -length - 1) + length : *bound;
    return std::clamp(place, lowest, std::max(lowest, highest));
  };
  const int64_t begin = cut(bounds[0], step < 0 ? length - 1 : 0);
  const int64_t end = cut(bounds[1], step < 0 ? -1 : length);
  const int64_t distance = step < 0 ? begin - end : end - begin;
  const uint64_t magnitude =
      step < 0 ? 0 - static_cast<uint64_t>(step) : static_cast<uint64_t>(step);
  const size_t count =
      distance <= 0 ? 0
                    : static_cast<size_t>((static_cast<uint64_t>(distance) - 1) / magnitude + 1);
  return {begin, step, count};
}

Result<Value> sliceText(const Text &text, const SliceRange &range, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spendBytes(text.bytes.size()));
  if (range.step != 1)
    return notSupported("a slice of a text with a step");
  const std::string_view bytes = text.bytes;
  const std::string_view rest =
      bytes.substr(byteOfCharacter(bytes, static_cast<size_t>(range.begin)));
  return Value::ofText(std::string(rest.substr(0, byteOfCharacter(rest, range.count))));
}

Result<Value> sliceSequence(const Sequence &source, const SliceRange &range, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spend(1 + range.count));
  auto sliced = std::make_shared<Sequence>();
  sliced->kind = source.kind;
  sliced->depth = source.depth;
  int64_t place = range.begin;
  for (size_t i = 0; i < range.count; ++i) {
    sliced->items.push_back(source.items[static_cast<size_t>(place)]);
    if (i + 1 < range.count)
      place += range.step;
  }
  return Value(SequencePtr(std::move(sliced)));
}

} // namespace

Result<Value> Evaluator::member(const Value &object, const std::string &name) {
  MOERT_RETURN_IF_ERROR(requireDefined(object));
  MOERT_ASSIGN_OR_RETURN(std::optional<Value> value, attributeOf(object, name, allowance));
  if (!value && object.isDict()) {
    const Value *entry = object.dict()->findText(name);
    return entry ? *entry : missing(object, "attribute", "'" + name + "'");
  }
  return value ? *value : missing(object, "attribute", "'" + name + "'");
}

Result<Value> Evaluator::element(const Value &object, const Value &index) {
  MOERT_RETURN_IF_ERROR(requireDefined(object));
  MOERT_ASSIGN_OR_RETURN(std::optional<Value> value, elementOf(object, index, allowance));
  if (value)
    return *value;
  if (!index.isText()) {
    MOERT_ASSIGN_OR_RETURN(const Value shown, toText(index, allowance));
    return missing(object, "element", excerpt(shown.text()));
  }
  MOERT_ASSIGN_OR_RETURN(value, attributeOf(object, index.text(), allowance));
  return value ? *value : missing(object, "attribute", "'" + excerpt(index.text()) + "'");
}

Result<Value> Evaluator::evaluateNode(const Slice &, const Expressions &children) {
  MOERT_ASSIGN_OR_RETURN(const Value object, evaluate(*children[0]));
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!children[i + 1])
      continue;
    MOERT_ASSIGN_OR_RETURN(const Value bound, evaluate(*children[i + 1]));
    if (!bound.isIntegral() && !bound.isNone())
      return invalidInput("slice indices must be integers or None, not ", bound.typeName());
    if (bound.isIntegral())
      bounds[i] = bound.integer();
  }
  MOERT_RETURN_IF_ERROR(requireDefined(object));
  if (bounds[2] == 0)
    return invalidInput("slice step cannot be zero");
  if (object.isText())
    return sliceText(object.textValue(), sliceRange(bounds, object.textValue().length), allowance);
  if (object.isSequence() && object.sequence()->hasSubscripts())
    return sliceSequence(*object.sequence(), sliceRange(bounds, object.sequence()->items.size()),
                         allowance);
  return invalidInput("'", object.typeName(), "' object is not subscriptable by a slice");
}

} // namespace moert::chat
