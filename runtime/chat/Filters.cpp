// The table of filters, and those on any value.
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/FilterFunctions.h"
#include "runtime/chat/Printing.h"

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

/// The integer part of a float; null if it has none.
Result<std::optional<int64_t>> truncate(double number) {
  using Found = std::optional<int64_t>;
  if (!std::isfinite(number))
    return Found();
  const Found whole = wholeNumber(std::trunc(number));
  return whole ? Result<Found>(whole) : Result<Found>(integerOverflow());
}

// int(default=0, base=10)
Result<Value> filterInt(const BuiltinCall &call) {
  const Value &value = call.self;
  MOERT_RETURN_IF_ERROR(requireDefined(value));
  if (value.isIntegral())
    return Value(value.integer());
  std::optional<double> number;
  if (value.isText()) {
    MOERT_ASSIGN_OR_RETURN(const int64_t base, call.integer(1, 10));
    if (const std::optional<Result<int64_t>> whole = parseInteger(value.text(), base))
      return whole->isOk() ? Result<Value>(Value(whole->value())) : Result<Value>(whole->status());
    number = parseFloat(value.text());
  } else if (value.kind() == Kind::kFloat) {
    if (std::isinf(value.number()))
      return invalidInput("cannot convert float infinity to integer");
    number = value.number();
  }
  if (number) {
    MOERT_ASSIGN_OR_RETURN(const std::optional<int64_t> whole, truncate(*number));
    if (whole)
      return Value(*whole);
  }
  return call.has(0) ? call.argument(0) : Value(int64_t(0));
}

// float(default=0.0)
Result<Value> filterFloat(const BuiltinCall &call) {
  MOERT_RETURN_IF_ERROR(requireDefined(call.self));
  if (call.self.isNumber())
    return Value(call.self.number());
  const std::optional<double> number =
      call.self.isText() ? parseFloat(call.self.text()) : std::nullopt;
  if (number)
    return Value(*number);
  return call.has(0) ? call.argument(0) : Value(0.0);
}

Result<Value> filterAbs(const BuiltinCall &call) {
  MOERT_RETURN_IF_ERROR(requireDefined(call.self));
  if (!call.self.isNumber())
    return invalidInput("bad operand type for abs(): '", call.self.typeName(), "'");
  if (call.self.kind() == Kind::kFloat)
    return Value(std::fabs(call.self.number()));
  return call.self.integer() < 0 ? negate(call.self) : Result<Value>(Value(call.self.integer()));
}

/// Rounds an integer to tens, hundreds and so on, half to even.
Result<Value> roundInteger(int64_t number, int64_t digits) {
  if (digits >= 0)
    return Value(number);
  if (digits < -18)
    return invalidInput("round: a precision of ", digits, " is not supported for an integer");
  int64_t unit = 1;
  for (int64_t i = digits; i < 0; ++i)
    unit *= 10;
  int64_t rest = number % unit;
  if (rest < 0)
    rest += unit;
  int64_t below = 0;
  if (__builtin_sub_overflow(number, rest, &below))
    return integerOverflow();
  const bool isOddHalf = rest == unit - rest && (below / unit) % 2 != 0;
  if (rest <= unit - rest && !isOddHalf)
    return Value(below);
  return calculate(BinaryOperator::kAdd, Value(below), Value(unit));
}

// round(precision=0, method='common')
Result<Value> filterRound(const BuiltinCall &call) {
  MOERT_RETURN_IF_ERROR(requireDefined(call.self));
  MOERT_ASSIGN_OR_RETURN(const int64_t precision, call.integer(0, 0));
  MOERT_ASSIGN_OR_RETURN(const std::string method, call.text(1, "common"));
  if (!call.self.isNumber())
    return invalidInput("round of a value of type ", call.self.typeName(), ", expected a number");
  if (method == "common")
    return call.self.isIntegral()
               ? roundInteger(call.self.integer(), precision)
               : Result<Value>(Value(roundToDigits(call.self.number(), precision)));
  if (method != "ceil" && method != "floor")
    return invalidInput("method must be common, ceil or floor");
  MOERT_ASSIGN_OR_RETURN(const Value unit,
                         calculate(BinaryOperator::kPower, Value(int64_t(10)), Value(precision)));
  MOERT_ASSIGN_OR_RETURN(const Value scaled, calculate(BinaryOperator::kMultiply, call.self, unit));
  if (!std::isfinite(scaled.number()))
    return invalidInput("cannot convert float infinity or NaN to integer");
  const double rounded =
      method == "ceil" ? std::ceil(scaled.number()) : std::floor(scaled.number());
  return calculate(BinaryOperator::kDivide, Value(rounded), unit);
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
// it.
Result<Value> filterTojson(const BuiltinCall &call) {
  JsonStyle style;
  style.isAscii = call.flag(0);
  style.isSorted = call.flag(3);
  style.isIndented = call.isSet(1);
  if (style.isIndented) {
    style.itemSeparator = ",";
    if (call.argument(1).isText()) {
      style.indent = call.argument(1).text();
    } else {
      MOERT_ASSIGN_OR_RETURN(const int64_t width, call.integer(1, 0));
      const uint64_t spaces = width < 0 ? 0 : static_cast<uint64_t>(width);
      MOERT_RETURN_IF_ERROR(call.allowance().spendBytes(spaces));
      style.indent.assign(spaces, ' ');
    }
  }
  if (call.isSet(2))
    MOERT_RETURN_IF_ERROR(readSeparators(call.argument(2), style));
  TextBuilder out(call.allowance());
  MOERT_RETURN_IF_ERROR(appendJson(call.self, style, out));
  return std::move(out).finish();
}

Result<Value> filterAttr(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string name, call.text(0));
  if (call.self.isDict() && !findMethod(call.self, name).method)
    return Value::undefined("'dict object' has no attribute '" + name + "'");
  return call.evaluator.member(call.self, name);
}

constexpr Builtin kFilters[] = {
    {"abs", filterAbs},
    {"attr", filterAttr, {"name"}, 1},
    {"batch", filterBatch, {"linecount", "fill_with"}, 1},
    {"capitalize", filterCapitalize},
    {"center", filterCenter, {"width"}},
    {"count", filterLength},
    {"d", filterDefault, {"default_value", "boolean"}},
    {"default", filterDefault, {"default_value", "boolean"}},
    {"dictsort", filterDictsort, {"case_sensitive", "by", "reverse"}},
    {"e", filterEscape},
    {"escape", filterEscape},
    {"first", filterFirst},
    {"float", filterFloat, {"default"}},
    {"format", filterFormat, {}, 0, true},
    {"indent", filterIndent, {"width", "first", "blank"}},
    {"int", filterInt, {"default", "base"}},
    {"items", filterItems},
    {"join", filterJoin, {"d", "attribute"}},
    {"last", filterLast},
    {"length", filterLength},
    {"list", filterList},
    {"lower", filterLower},
    {"map", filterMap, {}, 0, true},
    {"max", filterMax, {"case_sensitive", "attribute"}},
    {"min", filterMin, {"case_sensitive", "attribute"}},
    {"reject", filterReject, {}, 0, true},
    {"rejectattr", filterRejectattr, {}, 0, true},
    {"replace", filterReplace, {"old", "new", "count"}, 2},
    {"reverse", filterReverse},
    {"round", filterRound, {"precision", "method"}},
    {"safe", filterString},
    {"select", filterSelect, {}, 0, true},
    {"selectattr", filterSelectattr, {}, 0, true},
    {"slice", filterSlice, {"slices", "fill_with"}, 1},
    {"sort", filterSort, {"reverse", "case_sensitive", "attribute"}},
    {"string", filterString},
    {"sum", filterSum, {"attribute", "start"}},
    {"title", filterTitle},
    {"tojson", filterTojson, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"trim", filterTrim, {"chars"}},
    {"truncate", filterTruncate, {"length", "killwords", "end", "leeway"}},
    {"unique", filterUnique, {"case_sensitive", "attribute"}},
    {"upper", filterUpper},
};

} // namespace

const Builtin *findFilter(std::string_view name) {
  for (const Builtin &filter : kFilters)
    if (filter.name == name)
      return &filter;
  return nullptr;
}

} // namespace moert::chat
