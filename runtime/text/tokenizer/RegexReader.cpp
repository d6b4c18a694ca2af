#include "runtime/text/tokenizer/RegexReader.h"

#include "runtime/text/tokenizer/Regex.h"
#include "runtime/text/tokenizer/RegexProperties.h"

#include <algorithm>
#include <charconv>

namespace moert {
namespace {

// The deepest published pattern nests three levels.
constexpr int kMaxDepth = 16;

} // namespace

std::string regexLiteral(uint32_t codePoint) {
  if (codePoint < 0x80 &&
      (isAsciiLetter(static_cast<char>(codePoint)) || isAsciiDigit(static_cast<char>(codePoint))))
    return std::string(1, static_cast<char>(codePoint));
  char digits[8];
  char *end = std::to_chars(digits, digits + sizeof(digits), codePoint, 16).ptr;
  return "\\x{" + std::string(digits, end) + "}";
}

RegexReader::RegexReader(std::string_view source)
    : TextReader(source), isWordPattern(source == kWordPattern) {}

Status RegexReader::enter() {
  if (++depth > kMaxDepth)
    return refuse("found groups or classes nested deeper than ", kMaxDepth, " levels");
  return {};
}

Result<uint32_t> RegexReader::hexCharacter(std::string_view digits) {
  if (const std::optional<uint32_t> value = codePointOf(digits))
    return *value;
  return refuse("found '", excerpt(digits), "', expected a character's hexadecimal number");
}

Result<Escape> RegexReader::escape() {
  ++position;
  if (atEnd())
    return refuse("found the end after a backslash");
  if (next("p") || next("P")) {
    MOERT_ASSIGN_OR_RETURN(CharacterSet set, property());
    return Escape{false, 0, std::move(set)};
  }
  if (accept("s"))
    return Escape{false, 0, {std::string(kWhiteSpaceMembers), {}}};
  if (accept("S"))
    return Escape{false, 0, {"", {"[^" + std::string(kWhiteSpaceMembers) + "]"}}};
  if (next("d") || next("D")) {
    std::string digits = *propertyMembers("Nd", false);
    if (accept("d"))
      return Escape{false, 0, {digits, {}}};
    accept("D");
    return Escape{false, 0, {"", {"[^" + digits + "]"}}};
  }
  if (accept("x{")) {
    size_t close = std::min(text.find('}', position), text.size());
    MOERT_ASSIGN_OR_RETURN(uint32_t value, hexCharacter(text.substr(position, close - position)));
    position = close + 1;
    return Escape{true, value, {}};
  }
  if (accept("u")) {
    MOERT_ASSIGN_OR_RETURN(uint32_t value, hexCharacter(text.substr(position, 4)));
    position += 4;
    return Escape{true, value, {}};
  }
  constexpr std::string_view kNames = "tnvfrae";
  constexpr char kControls[] = {'\t', '\n', '\v', '\f', '\r', '\a', '\x1B'};
  char c = text[position];
  if (size_t found = kNames.find(c); found != std::string_view::npos) {
    ++position;
    return Escape{true, static_cast<uint32_t>(kControls[found]), {}};
  }
  if (static_cast<unsigned char>(c) >= 0x80 || isAsciiLetter(c) || isAsciiDigit(c))
    return refuse("found '\\", excerpt(text.substr(position, utf8Length(c))),
                  "', which is not supported");
  ++position;
  return Escape{true, static_cast<uint32_t>(c), {}};
}

// \p{name}, \P{name} or \p{^name}; position is at the p.
Result<CharacterSet> RegexReader::property() {
  bool isNegated = next("P");
  ++position;
  size_t close = text.find('}', position);
  if (!accept("{") || close == std::string_view::npos)
    return refuse("found a property without a name in braces");
  if (accept("^"))
    isNegated = !isNegated;
  std::string_view name = text.substr(position, close - position);
  std::optional<std::string> members = propertyMembers(name, isWordPattern);
  if (!members)
    return refuse("found the property '", excerpt(name), "', which is not supported");
  position = close + 1;
  if (isNegated)
    return CharacterSet{"", {"[^" + *members + "]"}};
  return CharacterSet{*members, {}};
}

Result<CharacterSet> RegexReader::characterClass(bool caseless) {
  MOERT_RETURN_IF_ERROR(enter());
  if (next("[:"))
    return unsupported("[:");
  ++position;
  bool isNegated = accept("^");
  CharacterSet set;
  for (;;) {
    CharacterSet side;
    MOERT_RETURN_IF_ERROR(classMembers(caseless, side));
    if (side.isEmpty())
      return refuse("found an empty class or side of &&");
    set = set.isEmpty()
              ? side
              : CharacterSet{"", {"(?:(?=" + set.expression() + ")" + side.expression() + ")"}};
    if (accept("]"))
      break;
    position += 2; // The && that ended this side.
  }
  --depth;
  if (isNegated)
    return CharacterSet{"", {set.complement()}};
  return set;
}

// Up to the closing bracket or &&, which is not consumed.
Status RegexReader::classMembers(bool caseless, CharacterSet &set) {
  while (!next("]") && !next("&&")) {
    if (atEnd())
      return refuse("found the end, expected ']'");
    MOERT_RETURN_IF_ERROR(classMember(caseless, set));
  }
  return {};
}

// One character, range, escape or nested class.
Status RegexReader::classMember(bool caseless, CharacterSet &set) {
  if (next("[")) {
    MOERT_ASSIGN_OR_RETURN(CharacterSet nested, characterClass(caseless));
    set.add(nested);
    return {};
  }
  if (next("-") && !set.isEmpty() && !next("-]"))
    return refuse("found '-' that is neither in a range nor at an end of the class");
  MOERT_ASSIGN_OR_RETURN(Escape first, classCharacter());
  if (!first.isCharacter) {
    if (caseless && first.set.members != kWhiteSpaceMembers)
      return refuse("found a property in (?i:...), which is not supported");
    set.add(first.set);
    return {};
  }
  uint32_t last = first.character;
  if (next("-") && !next("-]")) {
    ++position;
    if (atEnd() || next("[") || next("&&"))
      return unsupported();
    MOERT_ASSIGN_OR_RETURN(Escape end, classCharacter());
    if (!end.isCharacter || end.character < first.character)
      return refuse("found a range without a last character or in descending order");
    last = end.character;
  }
  if (caseless && last >= 0x80)
    return refuse("found a character outside of ASCII in (?i:...), which is not supported");
  set.members += regexLiteral(first.character);
  if (last != first.character)
    set.members += "-" + regexLiteral(last);
  return {};
}

Result<Escape> RegexReader::classCharacter() {
  if (next("\\"))
    return escape();
  return Escape{true, takeCharacter().value, {}};
}

} // namespace moert
