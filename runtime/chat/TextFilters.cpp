// The filters on texts; declared in Builtins.h.
#include "runtime/base/Utf8.h"
#include "runtime/chat/Builtins.h"
#include "runtime/chat/Printing.h"

#include <algorithm>

namespace moert::chat {

namespace {

template <std::string (*convert)(std::string_view)>
Result<Value> convertCase(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, call.allowance()));
  return call.allowance().text(convert(text.text()));
}

// jinja2 starts words after white space and - ( { [ <, unlike str.title().
std::string titleWords(std::string_view text) {
  std::string out;
  size_t begin = 0;
  auto isBreak = [](CodePoint character) {
    return isPythonSpace(character.value) ||
           (character.value < 0x80 && std::string_view("-({[<").find(static_cast<char>(
                                          character.value)) != std::string_view::npos);
  };
  for (size_t at = 0; at < text.size();) {
    const CodePoint character = firstCodePoint(text.substr(at));
    if (isBreak(character)) {
      out.append(text, at, character.length);
      at += character.length;
      continue;
    }
    begin = at;
    while (at < text.size() && !isBreak(firstCodePoint(text.substr(at))))
      at += utf8Length(text[at]);
    const std::string_view word = text.substr(begin, at - begin);
    const uint32_t first = utf8Length(word[0]);
    out += toUpper(word.substr(0, first)) + toLower(word.substr(first));
  }
  return out;
}

Result<Value> filterString(const BuiltinCall &call) {
  return toText(call.self, call.allowance());
}

// trim(chars=none)
Result<Value> filterTrim(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, call.allowance()));
  return stripText(call, text.text(), StripSide::kBoth);
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
  const std::vector<Line> lines = splitLines(text);
  TextBuilder out(call.allowance());
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool isBlank = lines[i].begin == lines[i].end;
    if (i > 0)
      MOERT_RETURN_IF_ERROR(out.append("\n"));
    MOERT_RETURN_IF_ERROR(out.repeat(" ", (i == 0 ? call.flag(1) : !isBlank) ? spaces : 0));
    MOERT_RETURN_IF_ERROR(
        out.append(std::string_view(text).substr(lines[i].begin, lines[i].end - lines[i].begin)));
  }
  return std::move(out).finish();
}

constexpr Builtin kTextFilters[] = {
    {"capitalize", convertCase<capitalize>},
    {"indent", filterIndent, {"width", "first"}},
    {"lower", convertCase<toLower>},
    {"replace", filterReplace, {"old", "new", "count"}, 2},
    {"safe", filterString},
    {"string", filterString},
    {"title", convertCase<titleWords>},
    {"trim", filterTrim, {"chars"}},
    {"upper", convertCase<toUpper>},
};

} // namespace

std::span<const Builtin> textFilters() {
  return kTextFilters;
}

} // namespace moert::chat
