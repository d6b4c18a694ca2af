#include "runtime/chat/TextSplit.h"

#include "runtime/base/Utf8.h"
#include "runtime/chat/PythonText.h"

#include <algorithm>

namespace moert::chat {

namespace {

constexpr size_t kNotFound = std::string_view::npos;

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
  void reverse() { std::reverse(parts.begin(), parts.end()); }
  size_t size() const { return parts.size(); }
  Result<Value> finish(SequenceKind kind) { return allowance.sequence(kind, std::move(parts)); }

private:
  Allowance &allowance;
  std::vector<Value> parts;
};

/// Where separators begin, from the left, without overlaps.
std::vector<size_t> findAll(std::string_view text, std::string_view separator, uint64_t most) {
  std::vector<size_t> places;
  for (size_t at = findText(text, separator); at != kNotFound && places.size() < most;
       at = findText(text, separator, at + separator.size()))
    places.push_back(at);
  return places;
}

/// The same from the right: in the reversed text, so that the search stays linear.
std::vector<size_t> findAllFromEnd(std::string_view text, std::string_view separator,
                                   uint64_t most) {
  const std::string reversed(text.rbegin(), text.rend());
  const std::string reversedSeparator(separator.rbegin(), separator.rend());
  std::vector<size_t> places = findAll(reversed, reversedSeparator, most);
  for (size_t &place : places)
    place = text.size() - place - separator.size();
  std::reverse(places.begin(), places.end());
  return places;
}

Status splitAtWhiteSpace(std::string_view text, uint64_t most, PartList &parts) {
  text.remove_prefix(leadingSpace(text));
  while (!text.empty()) {
    if (parts.size() == most)
      return parts.add(text); // With its white space at the end, as Python.
    size_t end = 0;
    while (end < text.size() && !isPythonSpace(firstCodePoint(text.substr(end)).value))
      end += utf8Length(text[end]);
    MOERT_RETURN_IF_ERROR(parts.add(text.substr(0, end)));
    text.remove_prefix(end);
    text.remove_prefix(leadingSpace(text));
  }
  return {};
}

size_t lastCharacter(std::string_view text) {
  size_t lead = text.size() - 1;
  while ((static_cast<unsigned char>(text[lead]) & 0xC0) == 0x80)
    --lead;
  return lead;
}

Status splitAtWhiteSpaceFromEnd(std::string_view text, uint64_t most, PartList &parts) {
  text.remove_suffix(trailingSpace(text));
  while (!text.empty()) {
    if (parts.size() == most) {
      MOERT_RETURN_IF_ERROR(parts.add(text));
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      const size_t lead = lastCharacter(text.substr(0, begin));
      if (isPythonSpace(firstCodePoint(text.substr(lead)).value))
        break;
      begin = lead;
    }
    MOERT_RETURN_IF_ERROR(parts.add(text.substr(begin)));
    text = text.substr(0, begin);
    text.remove_suffix(trailingSpace(text));
  }
  parts.reverse();
  return {};
}

Result<Value> split(const BuiltinCall &call, bool fromEnd) {
  MOERT_ASSIGN_OR_RETURN(const int64_t maxSplit, call.integer(1, -1));
  const uint64_t most = maxSplit < 0 ? UINT64_MAX : static_cast<uint64_t>(maxSplit);
  const std::string_view text = call.self.text();
  PartList parts(call.allowance());
  if (!call.isSet(0)) {
    MOERT_RETURN_IF_ERROR(fromEnd ? splitAtWhiteSpaceFromEnd(text, most, parts)
                                  : splitAtWhiteSpace(text, most, parts));
    return parts.finish(SequenceKind::kList);
  }
  MOERT_ASSIGN_OR_RETURN(const std::string separator, call.text(0));
  if (separator.empty())
    return invalidInput("empty separator");
  MOERT_RETURN_IF_ERROR(call.allowance().spendBytes(text.size()));
  size_t begin = 0;
  for (size_t place :
       fromEnd ? findAllFromEnd(text, separator, most) : findAll(text, separator, most)) {
    MOERT_RETURN_IF_ERROR(parts.add(text.substr(begin, place - begin)));
    begin = place + separator.size();
  }
  MOERT_RETURN_IF_ERROR(parts.add(text.substr(begin)));
  return parts.finish(SequenceKind::kList);
}

Result<Value> partition(const BuiltinCall &call, bool fromEnd) {
  MOERT_ASSIGN_OR_RETURN(const std::string separator, call.text(0));
  if (separator.empty())
    return invalidInput("empty separator");
  const std::string_view text = call.self.text();
  const std::vector<size_t> places =
      fromEnd ? findAllFromEnd(text, separator, 1) : findAll(text, separator, 1);
  PartList parts(call.allowance());
  if (places.empty()) {
    MOERT_RETURN_IF_ERROR(parts.add(fromEnd ? "" : text));
    MOERT_RETURN_IF_ERROR(parts.add(""));
    MOERT_RETURN_IF_ERROR(parts.add(fromEnd ? text : ""));
  } else {
    MOERT_RETURN_IF_ERROR(parts.add(text.substr(0, places[0])));
    MOERT_RETURN_IF_ERROR(parts.add(separator));
    MOERT_RETURN_IF_ERROR(parts.add(text.substr(places[0] + separator.size())));
  }
  return parts.finish(SequenceKind::kTuple);
}

} // namespace

Result<Value> splitText(const BuiltinCall &call) {
  return split(call, false);
}
Result<Value> splitTextFromEnd(const BuiltinCall &call) {
  return split(call, true);
}
Result<Value> partitionText(const BuiltinCall &call) {
  return partition(call, false);
}
Result<Value> partitionTextFromEnd(const BuiltinCall &call) {
  return partition(call, true);
}

Result<Value> splitTextLines(const BuiltinCall &call) {
  const std::string &text = call.self.text();
  MOERT_RETURN_IF_ERROR(call.allowance().spend(text.size() / 4)); // The lines' table.
  PartList parts(call.allowance());
  for (const Line &line : splitLines(text)) {
    const size_t end = call.flag(0) ? line.next : line.end;
    MOERT_RETURN_IF_ERROR(parts.add(std::string_view(text).substr(line.begin, end - line.begin)));
  }
  return parts.finish(SequenceKind::kList);
}

} // namespace moert::chat
