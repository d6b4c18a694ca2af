#include "runtime/chat/TextMethods.h"

#include "runtime/base/Utf8.h"
#include "runtime/chat/FilterFunctions.h"
#include "runtime/chat/PythonText.h"
#include "runtime/chat/TextSplit.h"

#include <algorithm>

namespace moert::chat {

namespace {

constexpr size_t kNotFound = std::string_view::npos;

Result<Value> textOf(std::string_view text, const BuiltinCall &call) {
  return call.allowance().text(std::string(text));
}

template <std::string (*convert)(std::string_view)>
Result<Value> convertCase(const BuiltinCall &call) {
  return call.allowance().text(convert(call.self.text()));
}

template <StripSide side> Result<Value> stripText(const BuiltinCall &call) {
  constexpr size_t kMaxSet = 1024; // Each character is searched for in the set.
  MOERT_ASSIGN_OR_RETURN(const std::string set, call.text(0));
  if (set.size() > kMaxSet)
    return invalidInput("strip: found a set of ", set.size(), " bytes, expected at most ", kMaxSet);
  const std::string_view characters = set;
  MOERT_RETURN_IF_ERROR(
      call.allowance().spend(call.self.text().size() / 64 * (1 + set.size() / 64)));
  return textOf(strip(call.self.text(), call.isSet(0) ? &characters : nullptr, side), call);
}

/// The part of the text between the optional character indices of two arguments.
struct Part {
  std::string_view text;
  size_t firstCharacter;
  bool isValid; // False if it starts after the end.
};

Result<Part> partOf(const BuiltinCall &call, size_t firstParameter) {
  const Text &whole = call.self.textValue();
  const int64_t length = static_cast<int64_t>(whole.length);
  MOERT_ASSIGN_OR_RETURN(int64_t begin, call.integer(firstParameter, 0));
  MOERT_ASSIGN_OR_RETURN(int64_t end, call.integer(firstParameter + 1, length));
  begin = begin < 0 ? std::max<int64_t>(begin + length, 0) : begin;
  end = end < 0 ? std::max<int64_t>(end + length, 0) : std::min(end, length);
  const std::string_view bytes = whole.bytes;
  if (begin > end || begin > length)
    return Part{"", static_cast<size_t>(std::min(begin, length)), false};
  MOERT_RETURN_IF_ERROR(call.allowance().spend(call.self.weight()));
  const size_t from = byteOfCharacter(bytes, static_cast<size_t>(begin));
  const size_t count = byteOfCharacter(bytes.substr(from), static_cast<size_t>(end - begin));
  return Part{bytes.substr(from, count), static_cast<size_t>(begin), true};
}

/// The byte of the last occurrence. Reversed texts keep the search linear.
size_t findLast(std::string_view text, std::string_view wanted) {
  const std::string reversed(text.rbegin(), text.rend());
  const std::string reversedWanted(wanted.rbegin(), wanted.rend());
  const size_t place = findText(reversed, reversedWanted);
  return place == kNotFound ? kNotFound : text.size() - place - wanted.size();
}

template <bool fromEnd, bool mustExist> Result<Value> findPlace(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string wanted, call.text(0));
  MOERT_ASSIGN_OR_RETURN(const Part part, partOf(call, 1));
  MOERT_RETURN_IF_ERROR(call.allowance().spendBytes(fromEnd ? part.text.size() : 0));
  const size_t place = !part.isValid ? kNotFound
                       : fromEnd     ? findLast(part.text, wanted)
                                     : findText(part.text, wanted);
  if (place == kNotFound && mustExist)
    return invalidInput("substring not found");
  if (place == kNotFound)
    return Value(int64_t(-1));
  return Value(
      static_cast<int64_t>(part.firstCharacter + characterCount(part.text.substr(0, place))));
}

Result<Value> countText(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string wanted, call.text(0));
  MOERT_ASSIGN_OR_RETURN(const Part part, partOf(call, 1));
  if (!part.isValid)
    return Value(int64_t(0));
  if (wanted.empty())
    return Value(static_cast<int64_t>(characterCount(part.text) + 1));
  int64_t count = 0;
  for (size_t at = findText(part.text, wanted); at != kNotFound;
       at = findText(part.text, wanted, at + wanted.size()))
    ++count;
  return Value(count);
}

/// startswith and endswith: a text or a tuple of them, within two optional indices.
template <bool atEnd> Result<Value> hasAffix(const BuiltinCall &call) {
  const Value &affixes = call.argument(0);
  MOERT_RETURN_IF_ERROR(requireDefined(affixes));
  MOERT_ASSIGN_OR_RETURN(const Part part, partOf(call, 1));
  const bool isTuple = affixes.isSequence() && affixes.sequence()->kind == SequenceKind::kTuple;
  if (!isTuple && !affixes.isText())
    return invalidInput(atEnd ? "endswith" : "startswith",
                        " first arg must be str or a tuple of str, not ", affixes.typeName());
  const std::vector<Value> single = {affixes};
  for (const Value &affix : isTuple ? affixes.sequence()->items : single) {
    if (!affix.isText())
      return invalidInput("a tuple for startswith or endswith must only contain str, not ",
                          affix.typeName());
    MOERT_RETURN_IF_ERROR(call.allowance().spend(1 + affix.weight()));
    if (part.isValid &&
        (atEnd ? part.text.ends_with(affix.text()) : part.text.starts_with(affix.text())))
      return Value(true);
  }
  return Value(false);
}

template <bool atEnd> Result<Value> removeAffix(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string affix, call.text(0));
  std::string_view text = call.self.text();
  if (atEnd && !affix.empty() && text.ends_with(affix))
    text.remove_suffix(affix.size());
  else if (!atEnd && text.starts_with(affix))
    text.remove_prefix(affix.size());
  return textOf(text, call);
}

Result<Value> replaceInText(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string from, call.text(0));
  MOERT_ASSIGN_OR_RETURN(const std::string to, call.text(1));
  MOERT_ASSIGN_OR_RETURN(const int64_t count, call.integer(2, -1));
  return replaceText(call.self.text(), from, to, count, call.allowance());
}

Result<Value> joinTexts(const BuiltinCall &call) {
  MOERT_RETURN_IF_ERROR(requireDefined(call.argument(0)));
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.argument(0), call.allowance()));
  TextBuilder out(call.allowance());
  for (size_t i = 0; i < items->items.size(); ++i) {
    if (!items->items[i].isText())
      return invalidInput("sequence item ", i, ": expected str instance, ",
                          items->items[i].typeName(), " found");
    if (i > 0)
      MOERT_RETURN_IF_ERROR(out.append(call.self.text()));
    MOERT_RETURN_IF_ERROR(out.append(items->items[i].text()));
  }
  return std::move(out).finish();
}

enum class Padding { kLeft, kRight, kBoth, kZeros };

// ljust, rjust, center and zfill: (width, fillchar=' ')
template <Padding padding> Result<Value> pad(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const int64_t width, call.integer(0, 0));
  std::string fill = "0";
  if constexpr (padding != Padding::kZeros) {
    MOERT_ASSIGN_OR_RETURN(fill, call.text(1, " "));
  }
  if (characterCount(fill) != 1)
    return invalidInput("the fill character must be exactly one character long");
  const Text &text = call.self.textValue();
  const uint64_t missing =
      width > static_cast<int64_t>(text.length) ? static_cast<uint64_t>(width) - text.length : 0;
  // CPython's center() puts the odd one to the left if the width is odd.
  const uint64_t left = padding == Padding::kRight  ? 0
                        : padding == Padding::kBoth ? missing / 2 + (missing & uint64_t(width) & 1)
                                                    : missing;
  std::string_view rest = text.bytes;
  TextBuilder out(call.allowance());
  const bool hasSign = !rest.empty() && (rest[0] == '-' || rest[0] == '+');
  if (padding == Padding::kZeros && hasSign) {
    MOERT_RETURN_IF_ERROR(out.append(rest.substr(0, 1)));
    rest.remove_prefix(1);
  }
  MOERT_RETURN_IF_ERROR(out.repeat(fill, left));
  MOERT_RETURN_IF_ERROR(out.append(rest));
  MOERT_RETURN_IF_ERROR(out.repeat(fill, missing - left));
  return std::move(out).finish();
}

template <CharacterClass wanted> Result<Value> areAll(const BuiltinCall &call) {
  std::string_view text = call.self.text();
  bool areAll = !text.empty();
  while (areAll && !text.empty()) {
    const CodePoint character = firstCodePoint(text);
    areAll = isInClass(character.value, wanted);
    text.remove_prefix(character.length);
  }
  return Value(areAll);
}

Result<Value> isAscii(const BuiltinCall &call) {
  return Value(call.self.textValue().isAscii());
}

template <bool upper> Result<Value> isCase(const BuiltinCall &call) {
  return Value(isCased(call.self.text(), upper));
}

Result<Value> isTitle(const BuiltinCall &call) {
  const std::string &text = call.self.text();
  const bool hasCase = isCased(toLower(text), false);
  return Value(hasCase && titleCase(text) == text);
}

constexpr Builtin kMethods[] = {
    {"capitalize", convertCase<capitalize>},
    {"center", pad<Padding::kBoth>, {"width", "fillchar"}, 1},
    {"count", countText, {"sub", "start", "end"}, 1},
    {"endswith", hasAffix<true>, {"suffix", "start", "end"}, 1},
    {"find", findPlace<false, false>, {"sub", "start", "end"}, 1},
    {"index", findPlace<false, true>, {"sub", "start", "end"}, 1},
    {"isalnum", areAll<CharacterClass::kAlnum>},
    {"isalpha", areAll<CharacterClass::kAlpha>},
    {"isascii", isAscii},
    {"isdecimal", areAll<CharacterClass::kDecimal>},
    {"isdigit", areAll<CharacterClass::kDigit>},
    {"islower", isCase<false>},
    {"isnumeric", areAll<CharacterClass::kNumeric>},
    {"isspace", areAll<CharacterClass::kSpace>},
    {"istitle", isTitle},
    {"isupper", isCase<true>},
    {"join", joinTexts, {"iterable"}, 1},
    {"ljust", pad<Padding::kRight>, {"width", "fillchar"}, 1},
    {"lower", convertCase<toLower>},
    {"lstrip", stripText<StripSide::kLeft>, {"chars"}},
    {"partition", partitionText, {"sep"}, 1},
    {"removeprefix", removeAffix<false>, {"prefix"}, 1},
    {"removesuffix", removeAffix<true>, {"suffix"}, 1},
    {"replace", replaceInText, {"old", "new", "count"}, 2},
    {"rfind", findPlace<true, false>, {"sub", "start", "end"}, 1},
    {"rindex", findPlace<true, true>, {"sub", "start", "end"}, 1},
    {"rjust", pad<Padding::kLeft>, {"width", "fillchar"}, 1},
    {"rpartition", partitionTextFromEnd, {"sep"}, 1},
    {"rsplit", splitTextFromEnd, {"sep", "maxsplit"}},
    {"rstrip", stripText<StripSide::kRight>, {"chars"}},
    {"split", splitText, {"sep", "maxsplit"}},
    {"splitlines", splitTextLines, {"keepends"}},
    {"startswith", hasAffix<false>, {"prefix", "start", "end"}, 1},
    {"strip", stripText<StripSide::kBoth>, {"chars"}},
    {"title", convertCase<titleCase>},
    {"upper", convertCase<toUpper>},
    {"zfill", pad<Padding::kZeros>, {"width"}, 1},
};

} // namespace

std::span<const Builtin> textMethods() {
  return kMethods;
}

} // namespace moert::chat
