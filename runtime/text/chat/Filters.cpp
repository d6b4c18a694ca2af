// The table of filters, and those on lists, dictionaries, numbers and any value.
#include "runtime/base/Excerpt.h"
#include "runtime/text/chat/Builtins.h"
#include "runtime/text/chat/Printing.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace moert::chat {

namespace {

// default(default_value='', boolean=false)
Result<Value> filterDefault(const BuiltinCall &call) {
  if (!call.self.isUndefined() && !(call.flag(1) && !call.self.isTrue()))
    return call.self;
  return call.has(0) ? call.argument(0) : Value::ofText("");
}

Result<Value> filterLength(const BuiltinCall &call) {
  const Value &value = call.self;
  size_t length = 0;
  if (value.isText())
    length = value.textValue().length;
  else if (value.isDict())
    length = value.dict()->entries.size();
  else if (value.isSequence() && value.sequence()->hasLength())
    length = value.sequence()->items.size();
  else if (!value.isUndefined())
    return invalidInput("object of type '", value.typeName(), "' has no len()");
  return Value(static_cast<int64_t>(length));
}

// int(default=0)
Result<Value> filterInt(const BuiltinCall &call) {
  MOERT_RETURN_IF_ERROR(requireDefined(call.self));
  std::optional<Value> number = call.self.isNumber() ? std::optional(call.self) : std::nullopt;
  if (call.self.isText()) {
    MOERT_ASSIGN_OR_RETURN(number, parseNumber(call.self.text()));
  }
  if (number && number->isIntegral())
    return Value(number->integer());
  if (number && std::isinf(number->number()) && !call.self.isText())
    return invalidInput("cannot convert float infinity to integer");
  if (!number || !std::isfinite(number->number()))
    return call.has(0) ? call.argument(0) : Value(int64_t(0));
  MOERT_ASSIGN_OR_RETURN(const int64_t whole, integerPart(number->number()));
  return Value(whole);
}

/// The two texts of `separators`, if they are given.
Status readSeparators(const Value &separators, JsonStyle &style) {
  const bool isPair = separators.isSequence() && separators.sequence()->hasSubscripts() &&
                      separators.sequence()->items.size() == 2 &&
                      separators.sequence()->items[0].isText() &&
                      separators.sequence()->items[1].isText();
  if (!isPair)
    return invalidInput("tojson: expected separators of two texts");
  style.itemSeparator = separators.sequence()->items[0].text();
  style.keySeparator = separators.sequence()->items[1].text();
  return {};
}

// tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false), as transformers has
// it, without the two that are flags.
Result<Value> filterTojson(const BuiltinCall &call) {
  if (call.flag(0) || call.flag(3))
    return notSupported("tojson with ", call.flag(0) ? "ensure_ascii" : "sort_keys");
  JsonStyle style;
  style.isIndented = call.isSet(1);
  if (style.isIndented) {
    style.itemSeparator = ",";
    if (call.argument(1).isText())
      return notSupported("tojson with a text as indent");
    MOERT_ASSIGN_OR_RETURN(const int64_t width, call.integer(1, 0));
    style.indent = static_cast<uint64_t>(std::clamp<int64_t>(width, 0, INT32_MAX));
  }
  if (call.isSet(2))
    MOERT_RETURN_IF_ERROR(readSeparators(call.argument(2), style));
  TextBuilder out(call.allowance());
  MOERT_RETURN_IF_ERROR(appendJson(call.self, style, out));
  return std::move(out).finish();
}

// Lists and dictionaries --------------------------------------------------------------------------

/// item.a.b of an attribute path "a.b".
Result<Value> attributePath(const Value &item, const Value &path, Evaluator &evaluator) {
  Value value = item;
  std::string_view rest = path.isText() ? std::string_view(path.text()) : "";
  for (;;) {
    const std::string name(rest.substr(0, rest.find('.')));
    if (name.find_first_not_of("0123456789") == std::string::npos)
      return notSupported("a path of attributes with other parts than names");
    MOERT_ASSIGN_OR_RETURN(value, evaluator.element(value, Value::ofText(name)));
    if (name.size() == rest.size())
      return value;
    rest.remove_prefix(name.size() + 1);
  }
}

template <bool isLast> Result<Value> filterEnd(const BuiltinCall &call) {
  if (call.self.isText() && !call.self.text().empty())
    return call.evaluator.element(call.self, Value(int64_t(isLast ? -1 : 0)));
  if (call.self.isSequence() && !call.self.sequence()->hasLength()) {
    const Sequence &generator = *call.self.sequence();
    if (isLast)
      return invalidInput("'generator' object is not reversible");
    if (generator.position < generator.items.size())
      return generator.items[generator.position++]; // Reads one item only.
  }
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  if (items->items.empty())
    return Value::undefined(strCat("No ", isLast ? "last" : "first", " item, sequence was empty."));
  return isLast ? items->items.back() : items->items.front();
}

// join(d='')
Result<Value> filterJoin(const BuiltinCall &call) {
  Value separator = Value::ofText("");
  if (call.has(0)) {
    MOERT_ASSIGN_OR_RETURN(separator, toText(call.argument(0), call.allowance()));
  }
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  TextBuilder out(call.allowance());
  for (size_t i = 0; i < items->items.size(); ++i) {
    if (i > 0)
      MOERT_RETURN_IF_ERROR(out.append(separator.text()));
    MOERT_RETURN_IF_ERROR(appendText(items->items[i], out));
  }
  return std::move(out).finish();
}

Result<Value> filterList(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  return call.allowance().list(items->items);
}

Result<Value> filterReverse(const BuiltinCall &call) {
  if (call.self.isText())
    return notSupported("reversing a text");
  const bool isGenerator = call.self.isSequence() && !call.self.sequence()->hasLength();
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  std::vector<Value> reversed(items->items.rbegin(), items->items.rend());
  return call.allowance().sequence(isGenerator ? SequenceKind::kList : SequenceKind::kGenerator,
                                   std::move(reversed));
}

/// The keys and values of the dictionary.
Result<std::vector<Value>> entriesOf(const BuiltinCall &call) {
  std::vector<Value> pairs;
  for (const auto &[name, value] : call.self.dict()->entries) {
    MOERT_ASSIGN_OR_RETURN(Value pair,
                           call.allowance().sequence(SequenceKind::kTuple, {name, value}));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

// By the keys, whose case does not count. All have to be texts or all integers.
Result<Value> filterDictsort(const BuiltinCall &call) {
  MOERT_RETURN_IF_ERROR(requireDefined(call.self));
  if (!call.self.isDict())
    return invalidInput("dictsort of a value of type ", call.self.typeName(), ", expected dict");
  MOERT_ASSIGN_OR_RETURN(std::vector<Value> pairs, entriesOf(call));
  std::vector<std::pair<Value, Value>> keyed;
  for (Value &pair : pairs) {
    Value key = pair.sequence()->items[0];
    // Merging compares each key once in each of log2(size) rounds.
    MOERT_RETURN_IF_ERROR(
        call.allowance().spend((1 + key.weight()) * std::bit_width(pairs.size())));
    if (key.isText()) {
      MOERT_ASSIGN_OR_RETURN(key, call.allowance().text(withCase(key.text(), Case::kLower)));
    }
    keyed.emplace_back(std::move(key), std::move(pair));
    MOERT_RETURN_IF_ERROR(isLess(keyed[0].first, keyed.back().first, call.allowance()).status());
  }
  std::stable_sort(keyed.begin(), keyed.end(), [](const auto &left, const auto &right) {
    return *isBefore(left.first, right.first);
  });
  for (size_t i = 0; i < pairs.size(); ++i)
    pairs[i] = std::move(keyed[i].second);
  return call.allowance().list(std::move(pairs));
}

Result<Value> filterItems(const BuiltinCall &call) {
  if (!call.self.isUndefined() && !call.self.isDict())
    return invalidInput("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  if (call.self.isDict()) {
    MOERT_ASSIGN_OR_RETURN(pairs, entriesOf(call));
  }
  return call.allowance().sequence(SequenceKind::kGenerator, std::move(pairs));
}

// Other filters and tests for each element --------------------------------------------------------

/// Applies the filter or test that the argument at `place` names, with the arguments after it.
Result<Value> applyNamed(const BuiltinCall &call, size_t place, const Value &item, const char *kind,
                         const Builtin *(*find)(std::string_view)) {
  const std::vector<Value> &given = call.given.positional;
  if (!given[place].isText())
    return invalidInput("found a value of type ", given[place].typeName(),
                        ", expected the name of a ", kind);
  const std::string &name = given[place].text();
  const Builtin *builtin = find(name);
  if (!builtin)
    return notSupported("the ", kind, " '", excerpt(name), "'");
  Arguments arguments;
  arguments.positional.assign(given.begin() + static_cast<ptrdiff_t>(place) + 1, given.end());
  arguments.named = call.given.named;
  return callBuiltin(*builtin, item, arguments, call.evaluator);
}

/// Keeps the items whose test, applied to the item or its attribute, gives `wanted`.
template <bool usesAttribute, bool wanted> Result<Value> filterSelect(const BuiltinCall &call) {
  const std::vector<Value> &given = call.given.positional;
  std::vector<Value> selected;
  // As jinja2: what is false is not read further.
  if (call.self.isTrue()) {
    if (usesAttribute && given.empty())
      return invalidInput("Missing parameter for attribute name");
    MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
    for (const Value &item : items->items) {
      Value tested = item;
      if (usesAttribute) {
        MOERT_ASSIGN_OR_RETURN(tested, attributePath(item, given[0], call.evaluator));
      }
      if (given.size() > usesAttribute) {
        MOERT_ASSIGN_OR_RETURN(tested, applyNamed(call, usesAttribute, tested, "test", findTest));
      }
      MOERT_RETURN_IF_ERROR(call.allowance().spend(1));
      if (tested.isTrue() == wanted)
        selected.push_back(item);
    }
  }
  return call.allowance().sequence(SequenceKind::kGenerator, std::move(selected));
}

// map('filter', ...) or map(attribute='name')
Result<Value> filterMap(const BuiltinCall &call) {
  const Arguments &given = call.given;
  std::vector<Value> mapped;
  if (call.self.isTrue()) {
    const bool isAttribute =
        given.positional.empty() && given.named.size() == 1 && given.named[0].first == "attribute";
    if (!isAttribute && given.positional.empty())
      return invalidInput("map: expected a filter's name, or only attribute='name'");
    MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
    for (const Value &item : items->items) {
      MOERT_ASSIGN_OR_RETURN(
          Value value, isAttribute ? attributePath(item, given.named[0].second, call.evaluator)
                                   : applyNamed(call, 0, item, "filter", findFilter));
      mapped.push_back(std::move(value));
    }
  }
  return call.allowance().sequence(SequenceKind::kGenerator, std::move(mapped));
}

constexpr Builtin kFilters[] = {
    {"count", filterLength},
    {"d", filterDefault, {"default_value", "boolean"}},
    {"default", filterDefault, {"default_value", "boolean"}},
    {"dictsort", filterDictsort},
    {"first", filterEnd<false>},
    {"int", filterInt, {"default"}},
    {"items", filterItems},
    {"join", filterJoin, {"d"}},
    {"last", filterEnd<true>},
    {"length", filterLength},
    {"list", filterList},
    {"map", filterMap, {}, 0, true},
    {"reject", filterSelect<false, false>, {}, 0, true},
    {"rejectattr", filterSelect<true, false>, {}, 0, true},
    {"reverse", filterReverse},
    {"select", filterSelect<false, true>, {}, 0, true},
    {"selectattr", filterSelect<true, true>, {}, 0, true},
    {"tojson", filterTojson, {"ensure_ascii", "indent", "separators", "sort_keys"}},
};

} // namespace

const Builtin *findFilter(std::string_view name) {
  const Builtin *filter = findBuiltin(kFilters, name);
  return filter ? filter : findBuiltin(textFilters(), name);
}

} // namespace moert::chat
