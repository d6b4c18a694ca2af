#include "runtime/base/Excerpt.h"
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/FilterFunctions.h"
#include "runtime/chat/PythonText.h"

#include <algorithm>

namespace moert::chat {

namespace {

/// The other filter or test, by its name, with the rest of the arguments.
struct NamedCall {
  const Builtin *builtin;
  Arguments arguments;
};

Result<NamedCall> namedCall(const BuiltinCall &call, size_t place,
                            const Builtin *(*find)(std::string_view), const char *kind) {
  const std::vector<Value> &given = call.given.positional;
  if (!given[place].isText())
    return invalidInput("found a value of type ", given[place].typeName(),
                        ", expected the name of a ", kind);
  const std::string &name = given[place].text();
  NamedCall named{find(name), {}};
  if (!named.builtin)
    return invalidInput("the ", kind, " '", excerpt(name), "' is not supported");
  named.arguments.positional.assign(given.begin() + static_cast<ptrdiff_t>(place) + 1, given.end());
  named.arguments.named = call.given.named;
  return named;
}

/// Keeps the items whose test, applied to the item or its attribute, gives `wanted`.
Result<Value> select(const BuiltinCall &call, bool usesAttribute, bool wanted) {
  const std::vector<Value> &given = call.given.positional;
  std::vector<Value> selected;
  // As jinja2: what is false is not read further.
  if (call.self.isTrue()) {
    if (usesAttribute && given.empty())
      return invalidInput("Missing parameter for attribute name");
    const size_t testPlace = usesAttribute ? 1 : 0;
    std::optional<NamedCall> test;
    if (given.size() > testPlace) {
      MOERT_ASSIGN_OR_RETURN(test, namedCall(call, testPlace, findTest, "test"));
    }
    MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
    for (const Value &item : items->items) {
      Value tested = item;
      if (usesAttribute) {
        MOERT_ASSIGN_OR_RETURN(tested, attributePath(item, given[0], call.evaluator));
      }
      if (test) {
        MOERT_ASSIGN_OR_RETURN(
            tested, callBuiltin(*test->builtin, tested, test->arguments, call.evaluator));
      }
      MOERT_RETURN_IF_ERROR(call.allowance().spend(1));
      if (tested.isTrue() == wanted)
        selected.push_back(item);
    }
  }
  return call.allowance().sequence(SequenceKind::kGenerator, std::move(selected));
}

const Value *namedArgument(const Arguments &arguments, std::string_view name) {
  for (const auto &argument : arguments.named)
    if (argument.first == name)
      return &argument.second;
  return nullptr;
}

} // namespace

Result<Value> attributePath(const Value &item, const Value &path, Evaluator &evaluator,
                            const Value *otherwise) {
  Value value = item;
  auto follow = [&](const Value &part) -> Status {
    MOERT_ASSIGN_OR_RETURN(value, evaluator.element(value, part));
    if (value.isUndefined() && otherwise)
      value = *otherwise;
    return {};
  };
  if (!path.isText()) {
    MOERT_RETURN_IF_ERROR(follow(path));
    return value;
  }
  const std::string &text = path.text();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool isNumber =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    const std::optional<Result<int64_t>> number = isNumber ? parseInteger(part, 10) : std::nullopt;
    if (number && !number->isOk())
      return number->status();
    MOERT_RETURN_IF_ERROR(follow(number ? Value(number->value()) : Value::ofText(part)));
    begin = end + 1;
  }
  return value;
}

// map('filter', ...) or map(attribute='name', default=none)
Result<Value> filterMap(const BuiltinCall &call) {
  std::vector<Value> mapped;
  if (call.self.isTrue()) {
    const Value *attribute =
        call.given.positional.empty() ? namedArgument(call.given, "attribute") : nullptr;
    const Value *otherwise = namedArgument(call.given, "default");
    if (attribute && call.given.named.size() > (otherwise ? 2 : 1))
      return invalidInput("map: found other arguments than attribute and default");
    if (!attribute && call.given.positional.empty())
      return invalidInput("map requires a filter argument");
    if (otherwise && otherwise->isNone())
      otherwise = nullptr;
    std::optional<NamedCall> filter;
    if (!attribute) {
      MOERT_ASSIGN_OR_RETURN(filter, namedCall(call, 0, findFilter, "filter"));
    }
    MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
    for (const Value &item : items->items) {
      MOERT_ASSIGN_OR_RETURN(
          Value value,
          attribute ? attributePath(item, *attribute, call.evaluator, otherwise)
                    : callBuiltin(*filter->builtin, item, filter->arguments, call.evaluator));
      mapped.push_back(std::move(value));
    }
  }
  return call.allowance().sequence(SequenceKind::kGenerator, std::move(mapped));
}

Result<Value> filterSelect(const BuiltinCall &call) {
  return select(call, false, true);
}
Result<Value> filterReject(const BuiltinCall &call) {
  return select(call, false, false);
}
Result<Value> filterSelectattr(const BuiltinCall &call) {
  return select(call, true, true);
}
Result<Value> filterRejectattr(const BuiltinCall &call) {
  return select(call, true, false);
}

} // namespace moert::chat
