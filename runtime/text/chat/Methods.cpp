// The methods of Python's str and dict, the attributes of its types that this interpreter does not
// have or jinja2's sandbox forbids, and the filters on texts; declared in Builtins.h.
#include "runtime/base/Utf8.h"
#include "runtime/text/chat/Builtins.h"

#include <algorithm>

namespace moert::chat {

namespace {

constexpr size_t kNotFound = std::string_view::npos;

// Methods that are filters too, which make a text of other values first ---------------------------

template <Case wanted> Result<Value> convertCase(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, call.allowance()));
  return call.allowance().text(withCase(text.text(), wanted));
}

// strip(chars=None)
template <StripSide side> Result<Value> stripText(const BuiltinCall &call) {
  constexpr size_t kMaxSet = 1024; // Each character is searched for in the set.
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, call.allowance()));
  MOERT_ASSIGN_OR_RETURN(const std::string set, call.text(0));
  if (set.size() > kMaxSet)
    return invalidInput("strip: found a set of ", set.size(), " bytes, expected at most ", kMaxSet);
  const std::string_view characters = set;
  MOERT_RETURN_IF_ERROR(call.allowance().spend(text.weight() * (1 + set.size() / 64)));
  return call.allowance().text(
      std::string(strip(text.text(), call.isSet(0) ? &characters : nullptr, side)));
}

/// `text` with at most `count` occurrences of `from` replaced; a negative count means all.
Result<Value> replaceText(const std::string &text, const std::string &from, const std::string &to,
                          int64_t count, Allowance &allowance) {
  if (from.empty())
    return notSupported("replacing an empty text");
  TextBuilder out(allowance);
  size_t copied = 0;
  // A negative count is a large one.
  for (uint64_t remaining = static_cast<uint64_t>(count); remaining > 0; --remaining) {
    const size_t found = findText(text, from, copied);
    if (found == kNotFound)
      break;
    MOERT_RETURN_IF_ERROR(out.append(std::string_view(text).substr(copied, found - copied)));
    MOERT_RETURN_IF_ERROR(out.append(to));
    copied = found + from.size();
  }
  MOERT_RETURN_IF_ERROR(out.append(std::string_view(text).substr(copied)));
  return std::move(out).finish();
}

// Texts -------------------------------------------------------------------------------------------

// find(sub)
Result<Value> findPlace(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string wanted, call.text(0));
  const std::string_view text = call.self.text();
  const size_t place = findText(text, wanted);
  return Value(place == kNotFound ? int64_t(-1)
                                  : static_cast<int64_t>(characterCount(text.substr(0, place))));
}

/// startswith and endswith.
template <bool atEnd> Result<Value> hasAffix(const BuiltinCall &call) {
  if (call.argument(0).isSequence())
    return notSupported("startswith or endswith of several texts");
  MOERT_ASSIGN_OR_RETURN(const std::string affix, call.text(0));
  const std::string &text = call.self.text();
  return Value(atEnd ? text.ends_with(affix) : text.starts_with(affix));
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

/// Adds a part of a text to a list, and counts it.
Status addPart(std::string_view part, Allowance &allowance, std::vector<Value> &parts) {
  MOERT_RETURN_IF_ERROR(allowance.spend(4)); // A value of its own.
  MOERT_ASSIGN_OR_RETURN(parts.emplace_back(), allowance.text(std::string(part)));
  return {};
}

/// The number of separators to split at: the second argument.
Result<uint64_t> mostSplits(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const int64_t most, call.integer(1, -1));
  return most < 0 ? UINT64_MAX : static_cast<uint64_t>(most);
}

/// The separator to split at: the first argument.
Result<std::string> separatorOf(const BuiltinCall &call) {
  if (!call.isSet(0))
    return notSupported("splitting without a separator");
  MOERT_ASSIGN_OR_RETURN(std::string separator, call.text(0));
  return separator.empty() ? Result<std::string>(invalidInput("empty separator")) : separator;
}

// split(sep, maxsplit=-1)
Result<Value> splitText(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string separator, separatorOf(call));
  MOERT_ASSIGN_OR_RETURN(const uint64_t most, mostSplits(call));
  std::string_view text = call.self.text();
  std::vector<Value> parts;
  while (parts.size() < most) {
    const size_t place = findText(text, separator);
    if (place == kNotFound)
      break;
    MOERT_RETURN_IF_ERROR(addPart(text.substr(0, place), call.allowance(), parts));
    text.remove_prefix(place + separator.size());
  }
  MOERT_RETURN_IF_ERROR(addPart(text, call.allowance(), parts));
  return call.allowance().list(std::move(parts));
}

// rsplit(sep, maxsplit=-1). Searches the reversed text, so that it takes linear time.
Result<Value> splitTextFromEnd(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string separator, separatorOf(call));
  MOERT_ASSIGN_OR_RETURN(const uint64_t most, mostSplits(call));
  std::string_view text = call.self.text();
  MOERT_RETURN_IF_ERROR(call.allowance().spendBytes(text.size()));
  const std::string reversed(text.rbegin(), text.rend());
  const std::string wanted(separator.rbegin(), separator.rend());
  std::vector<Value> parts;
  while (parts.size() < most) {
    const size_t begin = reversed.size() - text.size();
    const size_t place = findText(reversed, wanted, begin);
    if (place == kNotFound)
      break;
    MOERT_RETURN_IF_ERROR(
        addPart(text.substr(text.size() - (place - begin)), call.allowance(), parts));
    text.remove_suffix(place - begin + separator.size());
  }
  MOERT_RETURN_IF_ERROR(addPart(text, call.allowance(), parts));
  std::reverse(parts.begin(), parts.end());
  return call.allowance().list(std::move(parts));
}

constexpr Builtin kTextMethods[] = {
    {"capitalize", convertCase<Case::kCapitalized>},
    {"endswith", hasAffix<true>, {"suffix"}, 1},
    {"find", findPlace, {"sub"}, 1},
    {"join", joinTexts, {"iterable"}, 1},
    {"lower", convertCase<Case::kLower>},
    {"lstrip", stripText<StripSide::kLeft>, {"chars"}},
    {"replace", replaceInText, {"old", "new", "count"}, 2},
    {"rsplit", splitTextFromEnd, {"sep", "maxsplit"}},
    {"rstrip", stripText<StripSide::kRight>, {"chars"}},
    {"split", splitText, {"sep", "maxsplit"}},
    {"startswith", hasAffix<false>, {"prefix"}, 1},
    {"strip", stripText<StripSide::kBoth>, {"chars"}},
    {"title", convertCase<Case::kTitle>},
    {"upper", convertCase<Case::kUpper>},
};

// Dictionaries ------------------------------------------------------------------------------------

template <bool hasKeys, bool hasValues> Result<Value> viewOf(const BuiltinCall &call) {
  std::vector<Value> items;
  for (const auto &[name, value] : call.self.dict()->entries) {
    Value item = hasKeys ? name : value;
    if (hasKeys && hasValues) {
      MOERT_ASSIGN_OR_RETURN(item, call.allowance().sequence(SequenceKind::kTuple, {name, value}));
    }
    items.push_back(std::move(item));
  }
  return call.allowance().sequence(SequenceKind::kView, std::move(items));
}

// get(key, default=None)
Result<Value> dictGet(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string key, hashKey(call.argument(0), call.allowance()));
  if (const Value *value = call.self.dict()->find(key))
    return *value;
  return call.has(1) ? call.argument(1) : Value();
}

constexpr Builtin kDictMethods[] = {
    {"get", dictGet, {"key", "default"}, 1},
    {"items", viewOf<true, true>},
    {"keys", viewOf<true, false>},
    {"values", viewOf<false, true>},
};

// Attributes --------------------------------------------------------------------------------------

// Other attributes of Python's types, each between spaces.
constexpr std::string_view kOtherOfDict = " clear copy fromkeys pop popitem setdefault update ";
constexpr std::string_view kOtherOfList =
    " append clear copy count extend index insert pop remove reverse sort ";
constexpr std::string_view kOtherOfTuple = " count index ";
constexpr std::string_view kOtherOfRange = " count index start step stop ";
constexpr std::string_view kOtherOfView = " isdisjoint mapping ";
constexpr std::string_view kOtherOfText =
    " casefold center count encode expandtabs format format_map index isalnum isalpha isascii "
    "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper ljust "
    "maketrans partition removeprefix removesuffix rfind rindex rjust rpartition splitlines "
    "swapcase translate zfill ";
constexpr std::string_view kOtherOfNumber =
    " as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag "
    "is_integer numerator real to_bytes ";

std::string_view otherAttributes(const Value &object) {
  static constexpr std::string_view kOfSequences[] = {kOtherOfList, kOtherOfTuple, kOtherOfRange,
                                                      kOtherOfView, ""};
  switch (object.kind()) {
  case Kind::kText:
    return kOtherOfText;
  case Kind::kDict:
    return kOtherOfDict;
  case Kind::kBoolean:
  case Kind::kInteger:
  case Kind::kFloat:
    return kOtherOfNumber;
  case Kind::kSequence:
    return kOfSequences[static_cast<size_t>(object.sequence()->kind)];
  default:
    return "";
  }
}

// Filters -----------------------------------------------------------------------------------------

Result<Value> filterString(const BuiltinCall &call) {
  return toText(call.self, call.allowance());
}

// replace(old, new, count=none)
Result<Value> filterReplace(const BuiltinCall &call) {
  Allowance &allowance = call.allowance();
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, allowance));
  MOERT_ASSIGN_OR_RETURN(const Value from, toText(call.argument(0), allowance));
  MOERT_ASSIGN_OR_RETURN(const Value to, toText(call.argument(1), allowance));
  MOERT_ASSIGN_OR_RETURN(const int64_t count, call.integer(2, -1));
  return replaceText(text.text(), from.text(), to.text(), count, allowance);
}

// indent(width=4, first=false)
Result<Value> filterIndent(const BuiltinCall &call) {
  if (!call.self.isText())
    return invalidInput("indent of a value of type ", call.self.typeName(), ", expected str");
  if (call.has(0) && !call.argument(0).isIntegral())
    return notSupported("indent with a width of type ", call.argument(0).typeName());
  MOERT_ASSIGN_OR_RETURN(const int64_t width, call.integer(0, 4));
  const uint64_t spaces = static_cast<uint64_t>(std::max<int64_t>(width, 0));
  const std::string text = call.self.text() + "\n"; // As jinja2: then the last line counts too.
  MOERT_RETURN_IF_ERROR(call.allowance().spend(text.size() / 4)); // The lines' table.
  const std::vector<std::string_view> lines = splitLines(text);
  TextBuilder out(call.allowance());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0)
      MOERT_RETURN_IF_ERROR(out.append("\n"));
    const bool isIndented = i == 0 ? call.flag(1) : !lines[i].empty();
    MOERT_RETURN_IF_ERROR(out.repeat(" ", isIndented ? spaces : 0));
    MOERT_RETURN_IF_ERROR(out.append(lines[i]));
  }
  return std::move(out).finish();
}

constexpr Builtin kFilters[] = {
    {"capitalize", convertCase<Case::kCapitalized>},
    {"indent", filterIndent, {"width", "first"}},
    {"lower", convertCase<Case::kLower>},
    {"replace", filterReplace, {"old", "new", "count"}, 2},
    {"safe", filterString},
    {"string", filterString},
    {"trim", stripText<StripSide::kBoth>, {"chars"}},
    {"upper", convertCase<Case::kUpper>},
};

} // namespace

Result<const Builtin *> findMethod(const Value &object, const std::string &name) {
  const Builtin *method = object.isText()   ? findBuiltin(kTextMethods, name)
                          : object.isDict() ? findBuiltin(kDictMethods, name)
                                            : nullptr;
  if (!method && otherAttributes(object).find(" " + name + " ") != std::string_view::npos)
    return notSupported("the attribute '", name, "' of type ", object.typeName());
  return method;
}

std::span<const Builtin> textFilters() {
  return kFilters;
}

} // namespace moert::chat
