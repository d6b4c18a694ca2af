// printf-style formatting as Python has it; declared in Operators.h.
#include "runtime/base/Utf8.h"
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/Operators.h"
#include "runtime/chat/Printing.h"
#include "runtime/chat/PythonText.h"

#include <cmath>

namespace moert::chat {

namespace {

constexpr uint64_t kMaxPrecision = 300;

/// %(name)-08.3f: what is between the percent sign and the letter, and the letter.
struct Conversion {
  bool isNamed = false;
  std::string name;
  bool isLeft = false, isZeroPadded = false, hasPlus = false, hasSpace = false, isAlternate = false;
  uint64_t width = 0;
  std::optional<uint64_t> precision;
  char letter = 0;
};

class PercentFormat {
public:
  PercentFormat(std::string_view formatText, const std::vector<Value> &givenValues,
                const Dict *givenNames, Allowance &allowance)
      : format(formatText), values(givenValues), named(givenNames), out(allowance) {}

  Result<Value> run() {
    while (at < format.size()) {
      const size_t percent = std::min(format.find('%', at), format.size());
      MOERT_RETURN_IF_ERROR(out.append(format.substr(at, percent - at)));
      at = percent;
      if (at < format.size())
        MOERT_RETURN_IF_ERROR(convert());
    }
    const bool mayRemain = named || (values.size() == 1 && values[0].isSequence() &&
                                     values[0].sequence()->kind == SequenceKind::kList);
    if (next < values.size() && !mayRemain)
      return invalidInput("not all arguments converted during string formatting");
    return std::move(out).finish();
  }

private:
  Result<uint64_t> readNumber() {
    uint64_t number = 0;
    for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at) {
      number = 10 * number + static_cast<uint64_t>(format[at] - '0');
      if (number > INT32_MAX)
        return invalidInput("a width or precision in a format string is too large");
    }
    return number;
  }

  Status readName(Conversion &conversion) {
    const size_t end = format.find(')', at);
    if (end == std::string_view::npos)
      return invalidInput("incomplete format key");
    conversion.isNamed = true;
    conversion.name = format.substr(at + 1, end - at - 1);
    at = end + 1;
    return {};
  }

  void readFlags(Conversion &conversion) {
    for (; at < format.size(); ++at) {
      switch (format[at]) {
      case '-':
        conversion.isLeft = true;
        break;
      case '0':
        conversion.isZeroPadded = true;
        break;
      case '+':
        conversion.hasPlus = true;
        break;
      case ' ':
        conversion.hasSpace = true;
        break;
      case '#':
        conversion.isAlternate = true;
        break;
      default:
        return;
      }
    }
  }

  Result<Conversion> readConversion() {
    Conversion conversion;
    if (at < format.size() && format[at] == '(')
      MOERT_RETURN_IF_ERROR(readName(conversion));
    readFlags(conversion);
    MOERT_ASSIGN_OR_RETURN(conversion.width, readNumber());
    if (at < format.size() && format[at] == '.') {
      ++at;
      MOERT_ASSIGN_OR_RETURN(conversion.precision, readNumber());
    }
    while (at < format.size() && (format[at] == 'h' || format[at] == 'l' || format[at] == 'L'))
      ++at;
    if (at == format.size())
      return invalidInput("incomplete format");
    conversion.letter = format[at++];
    return conversion;
  }

  Result<Value> takeValue(const Conversion &conversion) {
    if (conversion.isNamed) {
      if (!named)
        return invalidInput("format requires a mapping");
      const Value *value = named->findText(conversion.name);
      if (!value)
        return invalidInput("the format's name '", conversion.name, "' is not in the mapping");
      return *value;
    }
    if (next == values.size())
      return invalidInput("not enough arguments for format string");
    return values[next++];
  }

  Status convert() {
    ++at; // The percent sign.
    MOERT_ASSIGN_OR_RETURN(const Conversion conversion, readConversion());
    if (conversion.letter == '%')
      return out.append("%");
    MOERT_ASSIGN_OR_RETURN(const Value value, takeValue(conversion));
    switch (conversion.letter) {
    case 's':
    case 'r':
      return convertText(conversion, value);
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return convertInteger(conversion, value);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return convertFloat(conversion, value);
    default:
      return invalidInput("the format character '", std::string(1, conversion.letter),
                          "' is not supported; supported are s r d i u x X o e E f F g G %");
    }
  }

  Status convertText(const Conversion &conversion, const Value &value) {
    TextBuilder shown(out.allowance);
    MOERT_RETURN_IF_ERROR(conversion.letter == 's' ? appendText(value, shown)
                                                   : appendRepr(value, shown));
    const Value text = std::move(shown).finish();
    std::string_view bytes = text.text();
    if (conversion.precision)
      bytes = bytes.substr(0, byteOfCharacter(bytes, *conversion.precision));
    const uint64_t length = characterCount(bytes);
    const uint64_t padding = conversion.width > length ? conversion.width - length : 0;
    MOERT_RETURN_IF_ERROR(out.repeat(" ", conversion.isLeft ? 0 : padding));
    MOERT_RETURN_IF_ERROR(out.append(bytes));
    return out.repeat(" ", conversion.isLeft ? padding : 0);
  }

  static Result<int64_t> toInteger(const Conversion &conversion, const Value &value) {
    const bool takesFloats = std::string_view("diu").find(conversion.letter) != std::string::npos;
    if (!value.isIntegral() && !(takesFloats && value.isNumber()))
      return invalidInput("%", std::string(1, conversion.letter),
                          " format: a number is required, not ", value.typeName());
    if (value.isIntegral())
      return value.integer();
    const std::optional<int64_t> whole = wholeNumber(std::trunc(value.number()));
    return whole ? Result<int64_t>(*whole) : Result<int64_t>(integerOverflow());
  }

  Status convertInteger(const Conversion &conversion, const Value &value) {
    MOERT_ASSIGN_OR_RETURN(const int64_t number, toInteger(conversion, value));
    if (conversion.precision.value_or(0) > kMaxPrecision)
      return invalidInput("a precision above ", kMaxPrecision, " is not supported");
    const uint64_t magnitude =
        number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    const char letter = conversion.letter;
    const bool isHexadecimal = letter == 'x' || letter == 'X';
    char digits[32];
    std::snprintf(digits, sizeof digits,
                  letter == 'x'   ? "%llx"
                  : letter == 'X' ? "%llX"
                  : letter == 'o' ? "%llo"
                                  : "%llu",
                  static_cast<unsigned long long>(magnitude));
    std::string text = digits;
    if (conversion.precision && text.size() < *conversion.precision)
      text.insert(0, *conversion.precision - text.size(), '0');
    std::string prefix;
    if (conversion.isAlternate && (isHexadecimal || letter == 'o'))
      prefix = std::string("0") + letter;
    return appendNumber(conversion, number < 0, prefix, text);
  }

  Status convertFloat(const Conversion &conversion, const Value &value) {
    if (!value.isNumber())
      return invalidInput("must be real number, not ", value.typeName());
    if (conversion.precision.value_or(0) > kMaxPrecision)
      return invalidInput("a precision above ", kMaxPrecision, " is not supported");
    const double number = value.number();
    const char pattern[] = {'%',
                            conversion.isAlternate ? '#' : '.',
                            conversion.isAlternate ? '.' : '*',
                            conversion.isAlternate ? '*' : conversion.letter,
                            conversion.isAlternate ? conversion.letter : '\0',
                            '\0'};
    char digits[700];
    std::snprintf(digits, sizeof digits, pattern,
                  static_cast<int>(conversion.precision.value_or(6)), std::fabs(number));
    return appendNumber(conversion, std::signbit(number) && !std::isnan(number), "", digits);
  }

  /// Sign, prefix and digits, padded to the width.
  Status appendNumber(const Conversion &conversion, bool isNegative, std::string_view prefix,
                      std::string_view digits) {
    std::string front = isNegative            ? "-"
                        : conversion.hasPlus  ? "+"
                        : conversion.hasSpace ? " "
                                              : "";
    front += prefix;
    const uint64_t length = front.size() + digits.size();
    const uint64_t padding = conversion.width > length ? conversion.width - length : 0;
    const bool hasZeros = conversion.isZeroPadded && !conversion.isLeft;
    MOERT_RETURN_IF_ERROR(out.repeat(" ", conversion.isLeft || hasZeros ? 0 : padding));
    MOERT_RETURN_IF_ERROR(out.append(front));
    MOERT_RETURN_IF_ERROR(out.repeat("0", hasZeros ? padding : 0));
    MOERT_RETURN_IF_ERROR(out.append(digits));
    return out.repeat(" ", conversion.isLeft ? padding : 0);
  }

  const std::string_view format;
  const std::vector<Value> &values;
  const Dict *named;
  TextBuilder out;
  size_t at = 0;   // In the format.
  size_t next = 0; // Value.
};

} // namespace

Result<Value> formatPercent(const std::string &format, const std::vector<Value> &values,
                            const Dict *named, Allowance &allowance) {
  return PercentFormat(format, values, named, allowance).run();
}

} // namespace moert::chat
