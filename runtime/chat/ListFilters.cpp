// The filters on lists and dictionaries; declared in Builtins.h.
#include "runtime/base/Excerpt.h"
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/Builtins.h"
#include "runtime/chat/Printing.h"

#include <algorithm>

namespace moert::chat {

namespace {

// Paths of attributes -----------------------------------------------------------------------------

/// item.a.b of an attribute path "a.b".
Result<Value> attributePath(const Value &item, const Value &path, Evaluator &evaluator) {
  if (!path.isText())
    return notSupported("an attribute path of type ", path.typeName());
  Value value = item;
  const std::string &text = path.text();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos)
      return notSupported("the attribute path '", excerpt(text), "' with a number");
    MOERT_ASSIGN_OR_RETURN(value, evaluator.element(value, Value::ofText(part)));
    begin = end + 1;
  }
  return value;
}

/// The items, or an attribute of each if that argument is set.
Result<std::vector<Value>> elementsOf(const BuiltinCall &call, const std::vector<Value> &items,
                                      size_t attributeParameter) {
  MOERT_RETURN_IF_ERROR(call.allowance().spend(items.size()));
  std::vector<Value> elements = items;
  if (!call.isSet(attributeParameter))
    return elements;
  for (Value &element : elements) {
    MOERT_ASSIGN_OR_RETURN(
        element, attributePath(element, call.argument(attributeParameter), call.evaluator));
  }
  return elements;
}

// Elements ----------------------------------------------------------------------------------------

Result<Value> endElement(const BuiltinCall &call, bool isLast) {
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

Result<Value> filterFirst(const BuiltinCall &call) {
  return endElement(call, false);
}
Result<Value> filterLast(const BuiltinCall &call) {
  return endElement(call, true);
}

// join(d='', attribute=none)
Result<Value> filterJoin(const BuiltinCall &call) {
  Value separator = Value::ofText("");
  if (call.has(0)) {
    MOERT_ASSIGN_OR_RETURN(separator, toText(call.argument(0), call.allowance()));
  }
  MOERT_ASSIGN_OR_RETURN(const SequencePtr sequence, iterate(call.self, call.allowance()));
  MOERT_ASSIGN_OR_RETURN(const std::vector<Value> items, elementsOf(call, sequence->items, 1));
  TextBuilder out(call.allowance());
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0)
      MOERT_RETURN_IF_ERROR(out.append(separator.text()));
    MOERT_RETURN_IF_ERROR(appendText(items[i], out));
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

/// The items in the order of their keys, whose case counts only if that is wanted.
Result<Value> sorted(const BuiltinCall &call, const std::vector<Value> &items,
                     std::vector<Value> keys, bool isCaseSensitive, bool reverse) {
  for (Value &key : keys) {
    if (isCaseSensitive || !key.isText())
      continue;
    MOERT_ASSIGN_OR_RETURN(key, call.allowance().text(toLower(key.text())));
  }
  MOERT_ASSIGN_OR_RETURN(const std::vector<size_t> order,
                         sortedOrder(keys, reverse, call.allowance()));
  std::vector<Value> ordered;
  for (const size_t place : order)
    ordered.push_back(items[place]);
  return call.allowance().list(std::move(ordered));
}

// sort(reverse=false, case_sensitive=false, attribute=none)
Result<Value> filterSort(const BuiltinCall &call) {
  const bool hasSeveral = call.isSet(2) && call.argument(2).isText() &&
                          call.argument(2).text().find(',') != std::string::npos;
  if (hasSeveral)
    return notSupported("sort by several attributes");
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  MOERT_ASSIGN_OR_RETURN(std::vector<Value> keys, elementsOf(call, items->items, 2));
  return sorted(call, items->items, std::move(keys), call.flag(1), call.flag(0));
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

Result<Value> filterDictsort(const BuiltinCall &call) {
  MOERT_RETURN_IF_ERROR(requireDefined(call.self));
  if (!call.self.isDict())
    return invalidInput("dictsort of a value of type ", call.self.typeName(), ", expected dict");
  MOERT_ASSIGN_OR_RETURN(const std::vector<Value> pairs, entriesOf(call));
  std::vector<Value> keys;
  for (const auto &entry : call.self.dict()->entries)
    keys.push_back(entry.first);
  return sorted(call, pairs, std::move(keys), false, false);
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

/// The other filter or test, by its name, with the rest of the arguments.
struct NamedCall {
  const Builtin *builtin = nullptr;
  Arguments arguments = {};
};

Result<NamedCall> namedCall(const BuiltinCall &call, size_t place, const char *kind,
                            const Builtin *(*find)(std::string_view)) {
  const std::vector<Value> &given = call.given.positional;
  if (!given[place].isText())
    return invalidInput("found a value of type ", given[place].typeName(),
                        ", expected the name of a ", kind);
  const std::string &name = given[place].text();
  NamedCall named{find(name)};
  if (!named.builtin)
    return notSupported("the ", kind, " '", excerpt(name), "'");
  named.arguments.positional.assign(given.begin() + static_cast<ptrdiff_t>(place) + 1, given.end());
  named.arguments.named = call.given.named;
  return named;
}

/// Keeps the items whose test, applied to the item or its attribute, gives `wanted`.
template <bool usesAttribute, bool wanted> Result<Value> filterSelect(const BuiltinCall &call) {
  const std::vector<Value> &given = call.given.positional;
  std::vector<Value> selected;
  // As jinja2: what is false is not read further.
  if (call.self.isTrue()) {
    if (usesAttribute && given.empty())
      return invalidInput("Missing parameter for attribute name");
    const size_t testPlace = usesAttribute ? 1 : 0;
    NamedCall test;
    if (given.size() > testPlace) {
      MOERT_ASSIGN_OR_RETURN(test, namedCall(call, testPlace, "test", findTest));
    }
    MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
    for (const Value &item : items->items) {
      Value tested = item;
      if (usesAttribute) {
        MOERT_ASSIGN_OR_RETURN(tested, attributePath(item, given[0], call.evaluator));
      }
      if (test.builtin) {
        MOERT_ASSIGN_OR_RETURN(tested,
                               callBuiltin(*test.builtin, tested, test.arguments, call.evaluator));
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
    NamedCall filter;
    if (!isAttribute) {
      MOERT_ASSIGN_OR_RETURN(filter, namedCall(call, 0, "filter", findFilter));
    }
    MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
    for (const Value &item : items->items) {
      MOERT_ASSIGN_OR_RETURN(
          Value value, isAttribute
                           ? attributePath(item, given.named[0].second, call.evaluator)
                           : callBuiltin(*filter.builtin, item, filter.arguments, call.evaluator));
      mapped.push_back(std::move(value));
    }
  }
  return call.allowance().sequence(SequenceKind::kGenerator, std::move(mapped));
}

constexpr Builtin kListFilters[] = {
    {"dictsort", filterDictsort},
    {"first", filterFirst},
    {"items", filterItems},
    {"join", filterJoin, {"d", "attribute"}},
    {"last", filterLast},
    {"list", filterList},
    {"map", filterMap, {}, 0, true},
    {"reject", filterSelect<false, false>, {}, 0, true},
    {"rejectattr", filterSelect<true, false>, {}, 0, true},
    {"reverse", filterReverse},
    {"select", filterSelect<false, true>, {}, 0, true},
    {"selectattr", filterSelect<true, true>, {}, 0, true},
    {"sort", filterSort, {"reverse", "case_sensitive", "attribute"}},
};

} // namespace

std::span<const Builtin> listFilters() {
  return kListFilters;
}

} // namespace moert::chat
