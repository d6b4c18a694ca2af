#include "runtime/text/chat/Lexer.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/chat/PythonText.h"

#include <algorithm>
#include <charconv>

namespace moert::chat {

namespace {

bool isNameCharacter(char c) {
  return isAsciiDigit(c) || isAsciiLetter(c) || c == '_';
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

/// Length of the name, number or digits at the start of text.
template <typename IsPart> size_t lengthOf(std::string_view text, IsPart isPart) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), isPart) - text.begin());
}

/// Replaces an escape of a string literal by what it stands for. `escape` starts after the
/// backslash. Returns its length.
Result<size_t> appendEscape(std::string_view escape, std::string &out) {
  static constexpr std::string_view kSimple = "\\'\"abfnrtv", kReplacements = "\\'\"\a\b\f\n\r\t\v";
  const char c = escape[0];
  if (const size_t simple = kSimple.find(c); simple != std::string_view::npos) {
    out += kReplacements[simple];
  } else if (c == 'x' || c == 'u') {
    const size_t digits = c == 'x' ? 2 : 4;
    const std::string_view number = escape.substr(1, digits);
    uint32_t value = 0;
    const auto end = std::from_chars(number.data(), number.data() + number.size(), value, 16);
    if (end.ptr != number.data() + digits)
      return invalidInput("a truncated \\", escape.substr(0, 1), " escape, expected ", digits,
                          " hexadecimal digits");
    if (value >= 0xD800 && value <= 0xDFFF)
      return invalidInput("the escape \\", escape.substr(0, 5), " is no character");
    appendCodePoint(value, out);
    return 1 + digits;
  } else if (isAsciiDigit(c) || c == 'U' || c == 'N' || static_cast<unsigned char>(c) >= 0x80) {
    return invalidInput("the escape \\", escape.substr(0, utf8Length(c)), " is not supported");
  } else if (c != '\n') { // Python keeps an unknown escape, and removes that of a line break.
    out.append(1, '\\').append(1, c);
  }
  return size_t(1);
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
    const char kind = source[tag + 1];
    const char sign = signAt(tag + 2);
    addText(text, sign, kind == '{');
    advance(text.size());
    const size_t beginLength = 2 + (sign != 0);
    if (kind == '#') {
      advance(beginLength);
      return lexComment();
    }
    add(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    advance(beginLength);
    if (kind == '%' && rest().substr(spaceAt(at)).starts_with("raw"))
      return error("the tag 'raw' is not supported");
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
    if (isAsciiDigit(source[at]))
      return lexNumber();
    if (const size_t length = lengthOf(rest(), isNameCharacter); length > 0)
      return addToken(TokenKind::kName, length);
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

  /// Digits, and perhaps a point and more of them.
  Status lexNumber() {
    const size_t whole = lengthOf(rest(), isAsciiDigit);
    size_t length = whole;
    if (at + whole + 1 < source.size() && source[at + whole] == '.' &&
        isAsciiDigit(source[at + whole + 1]))
      length += 1 + lengthOf(rest().substr(whole + 1), isAsciiDigit);
    const bool hasZero = length == whole && whole > 1 && source[at] == '0';
    if (const size_t more = lengthOf(rest().substr(length), isNameCharacter); more > 0 || hasZero)
      return error("the number '", excerpt(rest().substr(0, length + more)),
                   "' is not supported; expected decimal digits");
    return addToken(TokenKind::kNumber, length);
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
    const std::string_view literal = rest().substr(1, length - 1);
    std::string text;
    for (size_t begin = 0; begin < literal.size();) {
      if (literal[begin] != '\\') {
        text += literal[begin++];
        continue;
      }
      Result<size_t> escapeLength = appendEscape(literal.substr(begin + 1), text);
      if (!escapeLength.isOk())
        return error(escapeLength.status().message());
      begin += 1 + escapeLength.value();
    }
    add(TokenKind::kString, std::move(text));
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

static std::string describe(TokenKind kind, std::string_view text) {
  switch (kind) {
  case TokenKind::kText:
    return "text";
  case TokenKind::kVariableBegin:
    return "'{{'";
  case TokenKind::kVariableEnd:
    return "'}}'";
  case TokenKind::kBlockBegin:
    return "'{%'";
  case TokenKind::kBlockEnd:
    return "'%}'";
  case TokenKind::kString:
    return "a string";
  case TokenKind::kEnd:
    return "the end of the template";
  default:
    return text.empty() ? "a name" : "'" + excerpt(text) + "'";
  }
}

bool TokenStream::skip(std::string_view symbol) {
  const bool isFound = current().is(symbol);
  if (isFound)
    advance();
  return isFound;
}

Status TokenStream::unexpected(std::string_view expected) const {
  return error("found ", describe(current().kind, current().text), ", expected ", expected);
}

Status TokenStream::expect(std::string_view symbol) {
  return skip(symbol) ? Status() : unexpected(strCat("'", symbol, "'"));
}

Status TokenStream::expect(TokenKind kind) {
  if (current().kind != kind)
    return unexpected(describe(kind, ""));
  advance();
  return {};
}

Result<std::string> TokenStream::takeName() {
  MOERT_RETURN_IF_ERROR(current().kind == TokenKind::kName ? Status() : unexpected("a name"));
  std::string name = current().text;
  advance();
  return name;
}

} // namespace moert::chat
