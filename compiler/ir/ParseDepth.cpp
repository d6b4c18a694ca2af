// The scan uses the part of MLIR's syntax that opens or hides a level. Where the text has two
// possible readings, it counts the deeper one: one level too many is far from the limit.
#include "compiler/ir/ParseDepth.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using namespace moert;

namespace moec {

constexpr std::string_view kBytecodeMagic = "ML\xefR";

static bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
// Whether a name may have this character after its first one.
static bool isNamePart(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         c == '.';
}

namespace {

/// Scans the text once. `open` holds all open brackets; its first element is the text itself.
class DepthScan {
public:
  explicit DepthScan(std::string_view moduleText) : text(moduleText) {}

  /// Whether no level is too deep; otherwise line() is the line of the first one.
  bool run() {
    while (place < text.size() && deepest <= kMaxParseDepth)
      takeOne();
    return deepest <= kMaxParseDepth;
  }
  uint64_t line() const {
    return 1 + uint64_t(std::count(text.begin(),
                                   text.begin() + ptrdiff_t(std::min(place, text.size())), '\n'));
  }

private:
  struct Bracket {
    char opening;
    uint32_t operators = 0; // In the bracket's current sum, since the last comma.
  };

  char at(size_t index) const { return index < text.size() ? text[index] : '\0'; }
  void note(uint64_t depth) { deepest = std::max(deepest, depth); }
  uint64_t depth() const { return open.size() - 1; }

  void takeOne();
  void takeWord();
  void takeAlias();
  void takeOperator();
  void skipString();
  void skipLine() { place = std::min(text.find('\n', place), text.size()); }
  bool startsComment() const { return at(place) == '/' && at(place + 1) == '/'; }
  void close(char opening) {
    // A closing bracket that does not match is an operator, or an error at which parsing ends.
    if (open.back().opening == opening)
      open.pop_back();
  }

  std::string_view text;
  size_t place = 0;
  uint64_t deepest = 0;
  std::vector<Bracket> open = {{'\0'}};
  std::map<std::string, uint64_t, std::less<>> aliasDepths;
  std::string definedAlias; // The alias being defined, and its depth so far.
  uint64_t definedDepth = 0;
};

void DepthScan::skipString() {
  for (++place; place < text.size() && at(place) != '\n'; ++place) {
    if (at(place) == '"') {
      ++place;
      return;
    }
    if (at(place) == '\\' && at(place + 1) != '\n')
      ++place;
  }
}

void DepthScan::takeWord() {
  size_t begin = place;
  while (isNamePart(at(place)))
    ++place;
  std::string_view word = text.substr(begin, place - begin);
  if (word == "floordiv" || word == "ceildiv" || word == "mod")
    takeOperator();
  // The sign of an exponent is part of its number.
  else if (isDigit(word[0]) && word.substr(0, 2) != "0x" &&
           (word.back() == 'e' || word.back() == 'E') && (at(place) == '-' || at(place) == '+'))
    ++place;
}

// Sums occur in parentheses, in affine maps and sets; elsewhere a minus belongs to a number.
void DepthScan::takeOperator() {
  if (open.back().opening == '(')
    note(depth() + ++open.back().operators);
}

// "#name = ..." outside all brackets defines an alias; any other "#name" uses one.
void DepthScan::takeAlias() {
  size_t begin = place++;
  while (isNamePart(at(place)) || at(place) == '-')
    ++place;
  std::string_view name = text.substr(begin, place - begin);
  size_t next = std::min(text.find_first_not_of(" \t\r\n", place), text.size());
  if (depth() == 0 && at(next) == '=') {
    if (!definedAlias.empty())
      aliasDepths[definedAlias] = definedDepth;
    definedAlias = name;
    definedDepth = 0;
    return;
  }
  auto known = aliasDepths.find(name);
  uint64_t total = depth() + 1 + (known == aliasDepths.end() ? 0 : known->second);
  definedDepth = std::max(definedDepth, total);
  note(total);
}

void DepthScan::takeOne() {
  const char c = at(place);
  if (isNamePart(c))
    return takeWord();
  if (c == '"')
    return skipString();
  // Within <> an unknown dialect has its own syntax, which may have no comments.
  if (startsComment() && open.back().opening != '<')
    return skipLine();
  if (c == '#' || c == '!')
    return takeAlias();
  const char next = at(++place);
  const bool isComparison = next == '=';
  switch (c) {
  case '<':
    if (isComparison)
      break;
    [[fallthrough]];
  case '(':
  case '[':
  case '{':
    open.push_back({c});
    note(depth());
    break;
  case '>':
    if (!isComparison)
      close('<');
    break;
  case ')':
    close('(');
    break;
  case ']':
    close('[');
    break;
  case '}':
    close('{');
    break;
  case ',':
    open.back().operators = 0;
    break;
  case '-':
    if (next == '>')
      ++place;
    else
      takeOperator();
    break;
  case '+':
  case '*':
    takeOperator();
    break;
  default:
    break;
  }
}

} // namespace

Status checkParseDepth(std::string_view text, std::string_view fileName) {
  if (text.substr(0, kBytecodeMagic.size()) == kBytecodeMagic)
    return {};
  DepthScan scan(text);
  if (scan.run())
    return {};
  return invalidInput(fileName, ":", scan.line(), ": nested too deep, expected at most ",
                      kMaxParseDepth, " levels of brackets, operators or aliases");
}

} // namespace moec
