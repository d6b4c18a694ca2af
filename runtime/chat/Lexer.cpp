#include "runtime/chat/Lexer.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"
#include "runtime/chat/PythonText.h"
#include "runtime/chat/StringLiteral.h"

#include <algorithm>
#include <optional>

namespace moert::chat {

namespace {

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
bool isNameCharacter(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool isHexDigit(char c) {
  return isDigit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}
bool isOctalDigit(char c) {
  return c >= '0' && c <= '7';
}
bool isBinaryDigit(char c) {
  return c == '0' || c == '1';
}

/// All line breaks as \n, without one at the end.
std::string normalizeLines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      text += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n')
      text += '\n';
  }
  if (text.ends_with('\n'))
    text.pop_back();
  return text;
}

/// Length of the digits at the start of text, with single underscores between them; an underscore
/// may come first too if `afterPrefix`.
template <typename IsDigit>
size_t digitsLength(std::string_view text, IsDigit isWanted, bool afterPrefix) {
  size_t length = 0;
  while (length < text.size()) {
    const size_t underscore = text[length] == '_' && (length > 0 || afterPrefix);
    if (length + underscore >= text.size() || !isWanted(text[length + underscore]))
      break;
    length += underscore + 1;
  }
  return length;
}

/// Length of a float at the start of text; 0 if there is none.
size_t floatLength(std::string_view text) {
  auto digitsAt = [&](size_t from) {
    return digitsLength(text.substr(std::min(from, text.size())), isDigit, false);
  };
  size_t length = digitsAt(0);
  if (length == 0)
    return 0;
  const size_t whole = length;
  if (length < text.size() && text[length] == '.' && digitsAt(length + 1) > 0)
    length += 1 + digitsAt(length + 1);
  if (length < text.size() && (text[length] | 0x20) == 'e') {
    const size_t sign =
        length + 1 < text.size() && (text[length + 1] == '+' || text[length + 1] == '-');
    if (const size_t digits = digitsAt(length + 1 + sign); digits > 0)
      length += 1 + sign + digits;
  }
  return length == whole ? 0 : length;
}

size_t integerLength(std::string_view text) {
  if (text.empty() || !isDigit(text[0]))
    return 0;
  if (text[0] != '0')
    return digitsLength(text, isDigit, false);
  if (text.size() > 1) {
    const char letter = static_cast<char>(text[1] | 0x20);
    const std::string_view rest = text.substr(2);
    const size_t digits = letter == 'x'   ? digitsLength(rest, isHexDigit, true)
                          : letter == 'o' ? digitsLength(rest, isOctalDigit, true)
                          : letter == 'b' ? digitsLength(rest, isBinaryDigit, true)
                                          : 0;
    if (digits > 0)
      return 2 + digits;
  }
  return digitsLength(
      text, [](char c) { return c == '0'; }, false);
}

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

class Lexer {
public:
  explicit Lexer(std::string_view text) : source(normalizeLines(text)) {}

  Result<std::vector<Token>> run() {
    while (at < source.size())
      MOERT_RETURN_IF_ERROR(lexTextAndTag());
    add(TokenKind::kEnd, "");
    return std::move(tokens);
  }

private:
  std::string_view rest() const { return std::string_view(source).substr(at); }
  bool startsWith(std::string_view prefix) const { return rest().starts_with(prefix); }
  void add(TokenKind kind, std::string text) { tokens.push_back({kind, line, std::move(text)}); }
  template <typename... Parts> Status error(const Parts &...parts) const {
    return errorAtLine(line, parts...);
  }

  void advance(size_t bytes) {
    line += static_cast<uint32_t>(std::count(source.begin() + static_cast<ptrdiff_t>(at),
                                             source.begin() + static_cast<ptrdiff_t>(at + bytes),
                                             '\n'));
    at += bytes;
    isLineStart = at > 0 && source[at - 1] == '\n';
  }

  /// Adds the text before a tag that has this sign, without the white space that the tag removes.
  void addText(std::string_view text, char sign, bool isVariable) {
    if (sign == '-') {
      text.remove_suffix(trailingSpace(text));
    } else if (sign != '+' && !isVariable) {
      const size_t lineBegin = text.rfind('\n') + 1; // 0 if there is none.
      const std::string_view indent = text.substr(lineBegin);
      if ((lineBegin > 0 || isLineStart) && leadingSpace(indent) == indent.size())
        text = text.substr(0, lineBegin);
    }
    if (!text.empty())
      add(TokenKind::kText, std::string(text));
  }

  /// The sign at this place of the source, or 0.
  char signAt(size_t place) const {
    const char c = place < source.size() ? source[place] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  size_t spaceAt(size_t place) const {
    return leadingSpace(std::string_view(source).substr(place));
  }

  /// Length of the end of a tag at `place`, with the white space that it removes; 0 if there is
  /// none. `end` is the brackets; `signs` are those that may be before them.
  size_t tagEndLength(size_t place, std::string_view end, std::string_view signs,
                      bool trimsLine) const {
    const char sign = signAt(place);
    const size_t signLength = sign != 0 && signs.find(sign) != std::string_view::npos;
    if (std::string_view(source).substr(std::min(place + signLength, source.size()), end.size()) !=
        end)
      return 0;
    size_t length = signLength + end.size();
    if (signLength && sign == '-')
      length += spaceAt(place + length);
    else if (!signLength && trimsLine && place + length < source.size() &&
             source[place + length] == '\n')
      ++length;
    return length;
  }

  /// Length of "{% NAME %}" at `place`, or 0. Sets the sign that comes first.
  size_t wordTagLength(size_t place, std::string_view word, std::string_view signs, bool trimsLine,
                       char &sign) const {
    if (std::string_view(source).substr(place, 2) != "{%")
      return 0;
    sign = signAt(place + 2);
    size_t end = place + 2 + (sign != 0);
    end += spaceAt(end);
    if (std::string_view(source).substr(end, word.size()) != word)
      return 0;
    end += word.size();
    end += spaceAt(end);
    const size_t length = tagEndLength(end, "%}", signs, trimsLine);
    return length == 0 ? 0 : end + length - place;
  }

  /// The place of the next tag of any kind.
  size_t nextTag() const {
    for (size_t place = source.find('{', at); place != std::string::npos;
         place = source.find('{', place + 1)) {
      const char c = place + 1 < source.size() ? source[place + 1] : '\0';
      if (c == '{' || c == '%' || c == '#')
        return place;
    }
    return source.size();
  }

  Status lexTextAndTag() {
    const size_t tag = nextTag();
    const std::string_view text = rest().substr(0, tag - at);
    if (tag == source.size()) {
      add(TokenKind::kText, std::string(text));
      advance(text.size());
      return {};
    }
    char sign = '\0';
    if (const size_t length = wordTagLength(tag, "raw", "-", false, sign); length > 0) {
      addText(text, sign, false);
      advance(text.size() + length);
      return lexRaw();
    }
    const char kind = source[tag + 1];
    sign = signAt(tag + 2);
    addText(text, sign, kind == '{');
    advance(text.size());
    const size_t beginLength = 2 + (sign != 0);
    if (kind == '#') {
      advance(beginLength);
      return lexComment();
    }
    add(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    advance(beginLength);
    return lexTag(kind == '{');
  }

  Status lexComment() {
    const uint32_t beginLine = line;
    const size_t end = source.find("#}", at);
    if (end == std::string::npos)
      return errorAtLine(beginLine, "missing end of comment tag");
    const bool hasSign = end > at && signAt(end - 1) != 0;
    const size_t tagBegin = end - hasSign;
    advance(tagBegin - at + tagEndLength(tagBegin, "#}", "+-", true));
    return {};
  }

  Status lexRaw() {
    const uint32_t beginLine = line;
    for (size_t place = source.find("{%", at); place != std::string::npos;
         place = source.find("{%", place + 1)) {
      char sign = '\0';
      const size_t length = wordTagLength(place, "endraw", "+-", true, sign);
      if (length == 0)
        continue;
      addText(rest().substr(0, place - at), sign, false);
      advance(place - at + length);
      return {};
    }
    return errorAtLine(beginLine, "missing end of raw directive");
  }

  /// From after the begin of a tag to its end.
  Status lexTag(bool isVariable) {
    std::string open; // The brackets that must be closed.
    for (;;) {
      const size_t endLength = !open.empty() ? 0
                               : isVariable  ? tagEndLength(at, "}}", "-", false)
                                             : tagEndLength(at, "%}", "+-", true);
      if (endLength > 0) {
        add(isVariable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
        advance(endLength);
        return {};
      }
      if (at == source.size())
        return error("the template ends inside a tag, expected '", isVariable ? "}}" : "%}", "'");
      if (const size_t space = spaceAt(at); space > 0)
        advance(space);
      else
        MOERT_RETURN_IF_ERROR(lexToken(open));
    }
  }

  Status lexToken(std::string &open) {
    const bool isAfterDot = at > 0 && source[at - 1] == '.'; // As in items.0.1.
    if (const size_t length = isAfterDot ? 0 : floatLength(rest()); length > 0)
      return addToken(TokenKind::kFloat, length);
    if (const size_t length = integerLength(rest()); length > 0)
      return addToken(TokenKind::kInteger, length);
    if (isNameCharacter(source[at])) {
      size_t length = 1;
      while (at + length < source.size() && isNameCharacter(source[at + length]))
        ++length;
      return addToken(TokenKind::kName, length);
    }
    if (source[at] == '\'' || source[at] == '"')
      return lexString();
    for (std::string_view symbol : kOperators) {
      if (startsWith(symbol)) {
        MOERT_RETURN_IF_ERROR(balance(symbol[0], open));
        return addToken(TokenKind::kOperator, symbol.size());
      }
    }
    return error("unexpected character '", excerpt(rest().substr(0, utf8Length(source[at]))), "'");
  }

  Status addToken(TokenKind kind, size_t length) {
    add(kind, std::string(rest().substr(0, length)));
    advance(length);
    return {};
  }

  Status balance(char bracket, std::string &open) const {
    static constexpr std::string_view kOpening = "([{", kClosing = ")]}";
    if (kOpening.find(bracket) != std::string_view::npos)
      open += bracket;
    const size_t closed = kClosing.find(bracket);
    if (closed == std::string_view::npos)
      return {};
    if (open.empty() || open.back() != kOpening[closed])
      return error("unexpected '", std::string(1, bracket), "'");
    open.pop_back();
    return {};
  }

  Status lexString() {
    size_t length = 1;
    while (at + length < source.size() && source[at + length] != source[at])
      length += source[at + length] == '\\' ? 2 : 1;
    if (at + length >= source.size())
      return error("a string without its closing quote");
    Result<std::string> text = unescapeString(rest().substr(1, length - 1));
    if (!text.isOk())
      return error(text.status().message());
    add(TokenKind::kString, std::move(text).value());
    advance(length + 1);
    return {};
  }

  const std::string source;
  size_t at = 0;
  uint32_t line = 1;
  bool isLineStart = true; // Whether the source before `at` ends with a line break.
  std::vector<Token> tokens;
};

} // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(source).run();
}

} // namespace moert::chat
