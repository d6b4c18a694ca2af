// The methods of Python's str; declared in Builtins.h.
#include "runtime/base/Utf8.h"
#include "runtime/chat/Builtins.h"
#include "runtime/chat/Operators.h"

#include <algorithm>

namespace moert::chat {

namespace {

constexpr size_t kNotFound = std::string_view::npos;

template <std::string (*convert)(std::string_view)>
Result<Value> convertCase(const BuiltinCall &call) {
  return call.allowance().text(convert(call.self.text()));
}

template <StripSide side> Result<Value> stripSelf(const BuiltinCall &call) {
  return stripText(call, call.self.text(), side);
}

// find(sub)
Result<Value> findPlace(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string wanted, call.text(0));
  const std::string_view text = call.self.text();
  const size_t place = findText(text, wanted);
  return Value(place == kNotFound ? int64_t(-1)
                                  : static_cast<int64_t>(characterCount(text.substr(0, place))));
}

// count(sub)
Result<Value> countText(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string wanted, call.text(0));
  const std::string_view text = call.self.text();
  if (wanted.empty())
    return notSupported("counting an empty text");
  int64_t count = 0;
  for (size_t at = findText(text, wanted); at != kNotFound;
       at = findText(text, wanted, at + wanted.size()))
    ++count;
  return Value(count);
}

/// startswith and endswith: a text or a tuple of them.
template <bool atEnd> Result<Value> hasAffix(const BuiltinCall &call) {
  const std::string_view text = call.self.text();
  const Value &affixes = call.argument(0);
  MOERT_RETURN_IF_ERROR(requireDefined(affixes));
  const bool isTuple = affixes.isSequence() && affixes.sequence()->kind == SequenceKind::kTuple;
  const std::vector<Value> single = {affixes};
  for (const Value &affix : isTuple ? affixes.sequence()->items : single) {
    if (!affix.isText())
      return invalidInput(atEnd ? "endswith" : "startswith",
                          " first arg must be str or a tuple of str, not ", affix.typeName());
    MOERT_RETURN_IF_ERROR(call.allowance().spend(1 + affix.weight()));
    if (atEnd ? text.ends_with(affix.text()) : text.starts_with(affix.text()))
      return Value(true);
  }
  return Value(false);
}

template <bool atEnd> Result<Value> removeAffix(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const std::string affix, call.text(0));
  std::string_view text = call.self.text();
  if (atEnd && text.ends_with(affix))
    text.remove_suffix(affix.size());
  else if (!atEnd && text.starts_with(affix))
    text.remove_prefix(affix.size());
  return call.allowance().text(std::string(text));
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

// Parts -------------------------------------------------------------------------------------------

/// Makes a list of parts of a text, counting each.
class PartList {
public:
  explicit PartList(Allowance &renderingAllowance) : allowance(renderingAllowance) {}

  Status add(std::string_view part) {
    MOERT_RETURN_IF_ERROR(allowance.spend(4)); // A value of its own.
    MOERT_ASSIGN_OR_RETURN(Value value, allowance.text(std::string(part)));
    parts.push_back(std::move(value));
    return {};
  }
  size_t size() const { return parts.size(); }
  Result<Value> finish(bool isReversed = false) {
    if (isReversed)
      std::reverse(parts.begin(), parts.end());
    return allowance.list(std::move(parts));
  }

private:
  Allowance &allowance;
  std::vector<Value> parts;
};

/// The number of separators to split at: the second argument.
Result<uint64_t> mostSplits(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const int64_t most, call.integer(1, -1));
  return most < 0 ? UINT64_MAX : static_cast<uint64_t>(most);
}

Result<Value> splitAtWhiteSpace(std::string_view text, uint64_t most, Allowance &allowance) {
  PartList parts(allowance);
  text.remove_prefix(leadingSpace(text));
  while (!text.empty()) {
    size_t end = 0;
    while (end < text.size() && !isPythonSpace(firstCodePoint(text.substr(end)).value))
      end += utf8Length(text[end]);
    if (parts.size() == most)
      end = text.size(); // With its white space at the end, as Python.
    MOERT_RETURN_IF_ERROR(parts.add(text.substr(0, end)));
    text.remove_prefix(end);
    text.remove_prefix(leadingSpace(text));
  }
  return parts.finish();
}

// split(sep=None, maxsplit=-1)
Result<Value> splitText(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const uint64_t most, mostSplits(call));
  std::string_view text = call.self.text();
  if (!call.isSet(0))
    return splitAtWhiteSpace(text, most, call.allowance());
  MOERT_ASSIGN_OR_RETURN(const std::string separator, call.text(0));
  if (separator.empty())
    return invalidInput("empty separator");
  PartList parts(call.allowance());
  while (parts.size() < most) {
    const size_t place = findText(text, separator);
    if (place == kNotFound)
      break;
    MOERT_RETURN_IF_ERROR(parts.add(text.substr(0, place)));
    text.remove_prefix(place + separator.size());
  }
  MOERT_RETURN_IF_ERROR(parts.add(text));
  return parts.finish();
}

// rsplit(sep, maxsplit=-1). Searches the reversed text, so that it takes linear time.
Result<Value> splitTextFromEnd(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const uint64_t most, mostSplits(call));
  if (!call.isSet(0))
    return notSupported("rsplit without a separator");
  MOERT_ASSIGN_OR_RETURN(const std::string separator, call.text(0));
  if (separator.empty())
    return invalidInput("empty separator");
  std::string_view text = call.self.text();
  MOERT_RETURN_IF_ERROR(call.allowance().spendBytes(text.size()));
  const std::string reversed(text.rbegin(), text.rend());
  const std::string wanted(separator.rbegin(), separator.rend());
  PartList parts(call.allowance());
  while (parts.size() < most) {
    const size_t begin = reversed.size() - text.size();
    const size_t place = findText(reversed, wanted, begin);
    if (place == kNotFound)
      break;
    MOERT_RETURN_IF_ERROR(parts.add(text.substr(text.size() - (place - begin))));
    text.remove_suffix(place - begin + separator.size());
  }
  MOERT_RETURN_IF_ERROR(parts.add(text));
  return parts.finish(true);
}

// splitlines()
Result<Value> splitTextLines(const BuiltinCall &call) {
  const std::string_view text = call.self.text();
  MOERT_RETURN_IF_ERROR(call.allowance().spend(text.size() / 4)); // The lines' table.
  PartList parts(call.allowance());
  for (const Line &line : splitLines(text))
    MOERT_RETURN_IF_ERROR(parts.add(text.substr(line.begin, line.end - line.begin)));
  return parts.finish();
}

constexpr Builtin kMethods[] = {
    {"capitalize", convertCase<capitalize>},
    {"count", countText, {"sub"}, 1},
    {"endswith", hasAffix<true>, {"suffix"}, 1},
    {"find", findPlace, {"sub"}, 1},
    {"join", joinTexts, {"iterable"}, 1},
    {"lower", convertCase<toLower>},
    {"lstrip", stripSelf<StripSide::kLeft>, {"chars"}},
    {"removeprefix", removeAffix<false>, {"prefix"}, 1},
    {"removesuffix", removeAffix<true>, {"suffix"}, 1},
    {"replace", replaceInText, {"old", "new", "count"}, 2},
    {"rsplit", splitTextFromEnd, {"sep", "maxsplit"}},
    {"rstrip", stripSelf<StripSide::kRight>, {"chars"}},
    {"split", splitText, {"sep", "maxsplit"}},
    {"splitlines", splitTextLines},
    {"startswith", hasAffix<false>, {"prefix"}, 1},
    {"strip", stripSelf<StripSide::kBoth>, {"chars"}},
    {"title", convertCase<titleCase>},
    {"upper", convertCase<toUpper>},
};

} // namespace

Result<Value> stripText(const BuiltinCall &call, const std::string &text, StripSide side) {
  constexpr size_t kMaxSet = 1024; // Each character is searched for in the set.
  MOERT_ASSIGN_OR_RETURN(const std::string set, call.text(0));
  if (set.size() > kMaxSet)
    return invalidInput("strip: found a set of ", set.size(), " bytes, expected at most ", kMaxSet);
  const std::string_view characters = set;
  MOERT_RETURN_IF_ERROR(call.allowance().spend(text.size() / 64 * (1 + set.size() / 64)));
  return call.allowance().text(
      std::string(strip(text, call.isSet(0) ? &characters : nullptr, side)));
}

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

std::span<const Builtin> textMethods() {
  return kMethods;
}

} // namespace moert::chat
