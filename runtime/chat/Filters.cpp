// The table of filters, and those on any value.
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/Builtins.h"
#include "runtime/chat/Printing.h"

#include <algorithm>
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

/// The number that a filter's input is or stands for; null if there is none.
Result<std::optional<Value>> inputNumber(const BuiltinCall &call) {
  MOERT_RETURN_IF_ERROR(requireDefined(call.self));
  if (call.self.isText())
    return parseNumber(call.self.text());
  return call.self.isNumber() ? std::optional(call.self) : std::nullopt;
}

// int(default=0)
Result<Value> filterInt(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::optional<Value> number, inputNumber(call));
  if (number && number->isIntegral())
    return Value(number->integer());
  if (number && std::isinf(number->number()) && !call.self.isText())
    return invalidInput("cannot convert float infinity to integer");
  if (!number || !std::isfinite(number->number()))
    return call.has(0) ? call.argument(0) : Value(int64_t(0));
  MOERT_ASSIGN_OR_RETURN(const int64_t whole, integerPart(number->number()));
  return Value(whole);
}

// float(default=0.0)
Result<Value> filterFloat(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::optional<Value> number, inputNumber(call));
  if (number)
    return Value(number->number());
  return call.has(0) ? call.argument(0) : Value(0.0);
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

constexpr Builtin kFilters[] = {
    {"count", filterLength},
    {"d", filterDefault, {"default_value", "boolean"}},
    {"default", filterDefault, {"default_value", "boolean"}},
    {"float", filterFloat, {"default"}},
    {"int", filterInt, {"default"}},
    {"length", filterLength},
    {"tojson", filterTojson, {"ensure_ascii", "indent", "separators", "sort_keys"}},
};

} // namespace

const Builtin *findFilter(std::string_view name) {
  for (const std::span<const Builtin> table :
       {std::span<const Builtin>(kFilters), textFilters(), listFilters()})
    if (const Builtin *filter = findBuiltin(table, name))
      return filter;
  return nullptr;
}

} // namespace moert::chat
