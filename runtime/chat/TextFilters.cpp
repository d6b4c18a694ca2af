#include "runtime/base/Utf8.h"
#include "runtime/chat/FilterFunctions.h"
#include "runtime/chat/Printing.h"
#include "runtime/chat/PythonText.h"

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

} // namespace

Result<Value> filterUpper(const BuiltinCall &call) {
  return convertCase<toUpper>(call);
}
Result<Value> filterLower(const BuiltinCall &call) {
  return convertCase<toLower>(call);
}
Result<Value> filterCapitalize(const BuiltinCall &call) {
  return convertCase<capitalize>(call);
}
Result<Value> filterTitle(const BuiltinCall &call) {
  return convertCase<titleWords>(call);
}

Result<Value> filterString(const BuiltinCall &call) {
  return toText(call.self, call.allowance());
}

Result<Value> filterTrim(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, call.allowance()));
  static const Builtin &method = *findMethod(Value::ofText(""), "strip").method;
  return callBuiltin(method, text, call.given, call.evaluator);
}

Result<Value> replaceText(const std::string &text, const std::string &from, const std::string &to,
                          int64_t count, Allowance &allowance) {
  TextBuilder out(allowance);
  uint64_t remaining = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  size_t copied = 0;
  if (from.empty()) { // Before each character and at the end.
    for (size_t at = 0; remaining > 0; --remaining) {
      MOERT_RETURN_IF_ERROR(out.append(to));
      if (at == text.size())
        break;
      const uint32_t length = utf8Length(text[at]);
      MOERT_RETURN_IF_ERROR(out.append(std::string_view(text).substr(at, length)));
      copied = at += length;
    }
  } else {
    for (; remaining > 0; --remaining) {
      const size_t found = findText(text, from, copied);
      if (found == std::string_view::npos)
        break;
      MOERT_RETURN_IF_ERROR(out.append(std::string_view(text).substr(copied, found - copied)));
      MOERT_RETURN_IF_ERROR(out.append(to));
      copied = found + from.size();
    }
  }
  MOERT_RETURN_IF_ERROR(out.append(std::string_view(text).substr(copied)));
  return std::move(out).finish();
}

Result<Value> filterReplace(const BuiltinCall &call) {
  Allowance &allowance = call.allowance();
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, allowance));
  MOERT_ASSIGN_OR_RETURN(const Value from, toText(call.argument(0), allowance));
  MOERT_ASSIGN_OR_RETURN(const Value to, toText(call.argument(1), allowance));
  MOERT_ASSIGN_OR_RETURN(const int64_t count, call.integer(2, -1));
  return replaceText(text.text(), from.text(), to.text(), count, allowance);
}

// indent(width=4, first=false, blank=false)
Result<Value> filterIndent(const BuiltinCall &call) {
  if (!call.self.isText())
    return invalidInput("indent of a value of type ", call.self.typeName(), ", expected str");
  TextBuilder indentation(call.allowance());
  if (call.has(0) && call.argument(0).isText()) {
    MOERT_RETURN_IF_ERROR(indentation.append(call.argument(0).text()));
  } else {
    if (call.has(0) && !call.argument(0).isIntegral())
      return invalidInput("indent: found a width of type ", call.argument(0).typeName(),
                          ", expected int or str");
    MOERT_ASSIGN_OR_RETURN(const int64_t width, call.integer(0, 4));
    MOERT_RETURN_IF_ERROR(
        indentation.repeat(" ", static_cast<uint64_t>(std::max<int64_t>(width, 0))));
  }
  const Value indent = std::move(indentation).finish();
  const std::string text = call.self.text() + "\n"; // As jinja2: then the last line counts too.
  MOERT_RETURN_IF_ERROR(call.allowance().spend(text.size() / 4)); // The lines' table.
  const std::vector<Line> lines = splitLines(text);
  TextBuilder out(call.allowance());
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool isBlank = lines[i].begin == lines[i].end;
    if (i > 0)
      MOERT_RETURN_IF_ERROR(out.append("\n"));
    if (i == 0 ? call.flag(1) : !isBlank || call.flag(2))
      MOERT_RETURN_IF_ERROR(out.append(indent.text()));
    MOERT_RETURN_IF_ERROR(
        out.append(std::string_view(text).substr(lines[i].begin, lines[i].end - lines[i].begin)));
  }
  return std::move(out).finish();
}

Result<Value> filterCenter(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, call.allowance()));
  MOERT_ASSIGN_OR_RETURN(const int64_t width, call.integer(0, 80));
  static const Builtin &method = *findMethod(Value::ofText(""), "center").method;
  return callBuiltin(method, text, {{Value(width)}, {}}, call.evaluator);
}

Result<Value> filterEscape(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, call.allowance()));
  static constexpr std::string_view kSpecial = "&<>\"'";
  static constexpr std::string_view kEscapes[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  TextBuilder out(call.allowance());
  std::string_view rest = text.text();
  while (!rest.empty()) {
    const size_t special = std::min(rest.find_first_of(kSpecial), rest.size());
    MOERT_RETURN_IF_ERROR(out.append(rest.substr(0, special)));
    rest.remove_prefix(special);
    if (rest.empty())
      break;
    MOERT_RETURN_IF_ERROR(out.append(kEscapes[kSpecial.find(rest[0])]));
    rest.remove_prefix(1);
  }
  return std::move(out).finish();
}

Result<Value> filterFormat(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value format, toText(call.self, call.allowance()));
  const Arguments &given = call.given;
  if (!given.positional.empty() && !given.named.empty())
    return invalidInput("format: positional and named arguments at the same time");
  Dict named;
  for (const auto &[name, value] : given.named)
    named.set(textKey(name), Value::ofText(name), value);
  return formatPercent(format.text(), given.positional, given.named.empty() ? nullptr : &named,
                       call.allowance());
}

// truncate(length=255, killwords=false, end='...', leeway=5)
Result<Value> filterTruncate(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, call.allowance()));
  MOERT_ASSIGN_OR_RETURN(const int64_t length, call.integer(0, 255));
  MOERT_ASSIGN_OR_RETURN(const std::string end, call.text(2, "..."));
  MOERT_ASSIGN_OR_RETURN(const int64_t leeway, call.integer(3, 5));
  const int64_t endLength = static_cast<int64_t>(characterCount(end));
  if (length < endLength || leeway < 0)
    return invalidInput("truncate: expected a length of at least ", endLength,
                        " and a leeway of at least 0");
  const Text &whole = text.textValue();
  int64_t longest = 0;
  if (__builtin_add_overflow(length, leeway, &longest) ||
      static_cast<uint64_t>(longest) >= whole.length)
    return text;
  const std::string_view bytes = whole.bytes;
  std::string_view kept =
      bytes.substr(0, byteOfCharacter(bytes, static_cast<size_t>(length - endLength)));
  if (!call.flag(1))
    kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  return call.allowance().text(std::string(kept) + end);
}

} // namespace moert::chat
