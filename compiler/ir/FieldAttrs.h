// Attributes that hold plain data of the runtime: structs that describe their fields
// (runtime/base/Describe.h), printed as `<name = value, ...>`. Fields that have their defaults are
// not printed; names are those of the schema in camelCase.
#pragma once

#include "runtime/base/Describe.h"
#include "runtime/base/EnumNames.h"

#include "mlir/IR/OpImplementation.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <limits>
#include <optional>

namespace moert {

/// For the uniquing of attributes.
template <Described T> llvm::hash_code hash_value(const T &value) {
  llvm::hash_code hash = 0;
  T::describe(value, [&]<typename Field>(auto, const Field &field, const FieldRule & = {}) {
    if constexpr (std::is_integral_v<Field> || std::is_same_v<Field, std::string>)
      hash = llvm::hash_combine(hash, field);
  });
  return hash;
}

} // namespace moert

namespace mlir::moe {

template <typename Name> std::string nameInIr(Name) {
  return llvm::convertToCamelFromSnakeCase(Name::kName);
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

template <moert::Described T> void printFields(AsmPrinter &printer, const T &value);

template <typename T> void printField(AsmPrinter &printer, const T &value) {
  if constexpr (moert::Described<T>) {
    printFields(printer, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    printer.printString(value);
  } else if constexpr (moert::NamedEnum<T>) {
    printer.printKeywordOrString(nameOf(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    printer << (value ? "true" : "false");
  } else if constexpr (std::is_floating_point_v<T>) {
    printer.printFloat(llvm::APFloat(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    printer << uint64_t(value);
  } else if constexpr (requires { value.has_value(); }) {
    printField(printer, *value);
  } else if constexpr (requires { value.first; }) {
    printer.printString(value.first);
    printer << " = ";
    printer.printString(value.second);
  } else {
    printer << "[";
    llvm::interleaveComma(value, printer, [&](const auto &each) { printField(printer, each); });
    printer << "]";
  }
}

template <moert::Described T> void printFields(AsmPrinter &printer, const T &value) {
  const T usual = {};
  SmallVector<const void *> defaults;
  T::describe(usual, [&](auto, const auto &field, const moert::FieldRule & = {}) {
    defaults.push_back(&field);
  });
  const void **next = defaults.begin();
  StringRef separator = "";
  printer << "<";
  T::describe(value,
              [&]<typename Field>(auto name, const Field &field, const moert::FieldRule & = {}) {
                if (field == *static_cast<const Field *>(*next++))
                  return;
                printer << separator << nameInIr(name) << " = ";
                printField(printer, field);
                separator = ", ";
              });
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

template <moert::Described T> ParseResult parseFields(AsmParser &parser, T &value);

template <moert::NamedEnum Enum> ParseResult parseName(AsmParser &parser, Enum &value) {
  const SMLoc place = parser.getCurrentLocation();
  std::string name;
  if (parser.parseKeywordOrString(&name))
    return failure();
  const std::optional<Enum> named = moert::valueNamed<Enum>(name);
  if (!named)
    return parser.emitError(place)
           << "found '" << name << "', expected one of " << llvm::join(moert::kNames<Enum>, ", ");
  value = *named;
  return success();
}

/// AsmParser::parseInteger reads a negative number as a large one.
template <typename Number> ParseResult parseNumber(AsmParser &parser, Number &value) {
  const SMLoc place = parser.getCurrentLocation();
  constexpr uint64_t kMost = std::numeric_limits<Number>::max();
  llvm::APInt number;
  const OptionalParseResult parsed = parser.parseOptionalInteger(number);
  if (!parsed.has_value() || failed(*parsed) || number.isNegative() || number.ugt(kMost))
    return parser.emitError(place) << "expected a number from 0 to " << kMost;
  value = static_cast<Number>(number.getZExtValue());
  return success();
}

template <typename T> ParseResult parseField(AsmParser &parser, T &value) {
  if constexpr (moert::Described<T>) {
    return parseFields(parser, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return parser.parseString(&value);
  } else if constexpr (moert::NamedEnum<T>) {
    return parseName(parser, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    value = succeeded(parser.parseOptionalKeyword("true"));
    return value ? success() : parser.parseKeyword("false");
  } else if constexpr (std::is_floating_point_v<T>) {
    double number = 0;
    const ParseResult parsed = parser.parseFloat(number);
    value = static_cast<T>(number);
    return parsed;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return parseNumber(parser, value);
  } else if constexpr (requires { value.has_value(); }) {
    return parseField(parser, value.emplace());
  } else if constexpr (requires { value.first; }) {
    return failure(parser.parseString(&value.first) || parser.parseEqual() ||
                   parser.parseString(&value.second));
  } else {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
      return parseField(parser, value.emplace_back());
    });
  }
}

template <moert::Described T> ParseResult parseFields(AsmParser &parser, T &value) {
  llvm::StringSet<> seen;
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, [&]() -> ParseResult {
    const SMLoc place = parser.getCurrentLocation();
    std::string key;
    if (parser.parseKeywordOrString(&key) || parser.parseEqual())
      return failure();
    if (!seen.insert(key).second)
      return parser.emitError(place) << "the field '" << key << "' appears twice";
    std::optional<ParseResult> parsed;
    T::describe(value, [&](auto name, auto &field, const moert::FieldRule & = {}) {
      if (key == nameInIr(name))
        parsed = parseField(parser, field);
    });
    return parsed ? *parsed : parser.emitError(place) << "unknown field '" << key << "'";
  });
}

/// An attribute whose only parameter is the struct; null after an error.
template <typename AttrT, moert::Described T> Attribute parseAttr(AsmParser &parser) {
  const SMLoc place = parser.getCurrentLocation();
  T value;
  if (parseFields(parser, value))
    return {};
  return AttrT::getChecked([&] { return parser.emitError(place); }, parser.getContext(),
                           std::move(value));
}

} // namespace mlir::moe
