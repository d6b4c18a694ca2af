#include "runtime/text/grammar/Gbnf.h"

#include "runtime/base/Excerpt.h"
#include "runtime/text/grammar/CodePointSet.h"
#include "runtime/text/grammar/Quantifier.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

namespace {

using Sequence = Grammar::Sequence;

constexpr uint32_t kMostCount = 2000; // In a quantifier.
constexpr uint32_t kMostGroups = 64;  // Within each other.
constexpr size_t kMostRanges = 4096;  // In a class.
constexpr size_t kMostClasses = 4096; // That differ.
constexpr size_t kMostRules = 16'384; // With names.
constexpr uint32_t kUnbounded = Quantifier::kUnbounded;

class GbnfReader : TextReader {
public:
  explicit GbnfReader(std::string_view source) : TextReader(source) {}

  Result<Grammar> read() {
    if (!isValidUtf8(text))
      return invalidInput("the grammar is no UTF-8");
    rules["root"] = {grammar.addRule()};
    skipSpace(true);
    while (position < text.size()) {
      MOERT_RETURN_IF_ERROR(readRule());
      skipSpace(true);
    }
    for (const auto &[name, rule] : rules)
      if (!rule.isDefined)
        return name == "root"
                   ? invalidInput("the grammar has no rule 'root'")
                   : errorAt(rule.firstUse, "the rule '", excerpt(name), "' is not defined");
    if (const std::optional<Grammar::Fault> fault = grammar.findFault())
      return invalidInput("the rule '", excerpt(nameOf(fault->rule)), "': ", fault->reason);
    if (!grammar.dropUnproductive()[0])
      return invalidInput("the rule 'root' has no text that ends");
    grammar.shrink();
    return std::move(grammar);
  }

private:
  struct Rule {
    uint32_t index = 0;
    size_t firstUse = 0;
    bool isDefined = false;
  };

  template <typename... Words> Status errorAt(size_t place, const Words &...words) const {
    const std::string_view before = text.substr(0, place);
    const size_t lineBegin = before.rfind('\n') + 1;
    return invalidInput("line ", 1 + std::count(before.begin(), before.end(), '\n'), ", column ",
                        1 + place - lineBegin, ": ", words...);
  }
  template <typename... Words> Status error(const Words &...words) const {
    return errorAt(position, words...);
  }
  std::string foundHere() const {
    if (position == text.size())
      return "the end";
    const CodePoint next = firstCodePoint(text.substr(position));
    return "'" + excerpt(text.substr(position, next.length)) + "'";
  }

  void skipSpace(bool overLines) {
    while (position < text.size()) {
      const char c = text[position];
      if (c == '#')
        position = std::min(text.find('\n', position), text.size());
      else if (c == ' ' || c == '\t' || (overLines && (c == '\n' || c == '\r')))
        ++position;
      else
        break;
    }
  }
  std::string_view acceptName() {
    auto isName = [](char c) {
      return isAsciiLetter(c) || isAsciiDigit(c) || c == '-' || c == '_';
    };
    const size_t begin = position;
    while (position < text.size() && isName(text[position]))
      ++position;
    return text.substr(begin, position - begin);
  }
  /// A rule that was named as the one that another is made for.
  std::string_view nameOf(uint32_t rule) const {
    for (const auto &[name, known] : rules)
      if (known.index == rule)
        return name;
    return std::prev(madeFor.upper_bound(rule))->second;
  }

  Rule &ruleOf(std::string_view name, size_t use) {
    const auto [found, isNew] = rules.try_emplace(name);
    if (isNew)
      found->second = {grammar.addRule(), use};
    return found->second;
  }

  Status readRule() {
    const size_t begin = position;
    const std::string_view name = acceptName();
    if (name.empty())
      return error("found ", foundHere(), ", expected the name of a rule");
    skipSpace(false);
    if (!accept("::="))
      return error("found ", foundHere(), ", expected '::=' after '", excerpt(name), "'");
    Rule &rule = ruleOf(name, begin);
    if (rule.isDefined)
      return errorAt(begin, "the rule '", excerpt(name), "' is defined twice");
    rule.isDefined = true;
    madeFor[grammar.ruleCount()] = name;
    MOERT_RETURN_IF_ERROR(readAlternatives(rule.index, false));
    if (position < text.size() && text[position] != '\n' && text[position] != '\r')
      return error("found ", foundHere(), ", expected the end of the rule '", excerpt(name), "'");
    return {};
  }

  /// What has been read takes a bounded memory. Sequences are of the grammar once they are read.
  Status checkSize() const {
    if (elements > Grammar::kMostElements || grammar.size() > Grammar::kMostElements)
      return error("the grammar has more than ", Grammar::kMostElements, " elements");
    if (rules.size() > kMostRules)
      return error("the grammar has more than ", kMostRules, " rules");
    if (classes.size() > kMostClasses)
      return error("the grammar has more than ", kMostClasses, " classes");
    return {};
  }

  Status readAlternatives(uint32_t rule, bool inGroup) {
    do {
      skipSpace(true);
      Sequence sequence;
      MOERT_RETURN_IF_ERROR(readSequence(sequence, inGroup));
      grammar.addAlternative(rule, sequence);
      MOERT_RETURN_IF_ERROR(checkSize());
      const size_t end = position;
      skipSpace(true);
      if (!next("|"))
        position = inGroup ? position : end;
    } while (accept("|"));
    return {};
  }

  Status readSequence(Sequence &sequence, bool inGroup) {
    while (position < text.size()) {
      MOERT_RETURN_IF_ERROR(checkSize());
      Sequence item;
      if (accept("\"")) {
        MOERT_RETURN_IF_ERROR(readLiteral(item));
      } else if (accept("[")) {
        MOERT_RETURN_IF_ERROR(readClass(item));
      } else if (accept(".")) {
        item = oneOf(CodePointSet::all());
      } else if (accept("(")) {
        MOERT_RETURN_IF_ERROR(readGroup(item));
      } else {
        const size_t begin = position;
        const std::string_view name = acceptName();
        if (name.empty())
          break;
        item = {Grammar::ruleOf(ruleOf(name, begin).index)};
      }
      skipSpace(inGroup);
      MOERT_RETURN_IF_ERROR(readQuantifier(item));
      sequence.insert(sequence.end(), item.begin(), item.end());
      elements += item.size();
      skipSpace(inGroup);
    }
    return {};
  }

  Status readGroup(Sequence &item) {
    if (++depth > kMostGroups)
      return error("more than ", kMostGroups, " groups in each other");
    const uint32_t rule = grammar.addRule();
    MOERT_RETURN_IF_ERROR(readAlternatives(rule, true));
    --depth;
    if (!accept(")"))
      return error("found ", foundHere(), ", expected an element of the group or ')'");
    item = {Grammar::ruleOf(rule)};
    return {};
  }

  Status readLiteral(Sequence &item) {
    const size_t begin = position - 1;
    std::string bytes;
    while (!accept("\"")) {
      if (position == text.size() || text[position] == '\n')
        return errorAt(begin, "the literal has no second '\"'");
      MOERT_ASSIGN_OR_RETURN(const uint32_t character, readCharacter());
      appendCodePoint(character, bytes);
      if (bytes.size() > Grammar::kMostElements)
        return errorAt(begin, "the literal has more than ", Grammar::kMostElements, " bytes");
    }
    grammar.appendText(item, bytes);
    return {};
  }

  Status readClass(Sequence &item) {
    const size_t begin = position - 1;
    const bool isNegative = accept("^");
    std::vector<CodePointSet::Range> ranges;
    while (!accept("]")) {
      if (ranges.size() == kMostRanges)
        return errorAt(begin, "the class has more than ", kMostRanges, " ranges");
      if (position == text.size())
        return errorAt(begin, "the class has no ']'");
      MOERT_ASSIGN_OR_RETURN(const uint32_t first, readCharacter());
      uint32_t last = first;
      if (!next("-]") && accept("-")) {
        if (position == text.size())
          return errorAt(begin, "the class has no ']'");
        MOERT_ASSIGN_OR_RETURN(last, readCharacter());
      }
      if (last < first)
        return error("the range before descends");
      ranges.push_back({first, last});
    }
    const CodePointSet set(std::move(ranges));
    item = oneOf(isNegative ? set.complement() : set);
    if (item.empty())
      return errorAt(begin, "the class has no characters");
    return {};
  }

  Result<uint32_t> readCharacter() {
    const size_t begin = position;
    if (!accept("\\"))
      return takeCharacter().value;
    constexpr std::string_view kLetters = "nrt\"\\[]-^", kMeanings = "\n\r\t\"\\[]-^";
    const char letter = position < text.size() ? text[position] : '\0';
    if (const size_t known = kLetters.find(letter); known != std::string_view::npos) {
      ++position;
      return static_cast<uint32_t>(kMeanings[known]);
    }
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    const std::string_view code = text.substr(std::min(position + 1, text.size()), digits);
    const std::optional<uint32_t> value = codePointOf(code);
    if (digits == 0 || code.size() < digits || !value)
      return errorAt(begin, "an unknown escape, expected \\n, \\r, \\t, \\\", \\\\, \\[, \\], or a "
                            "character as \\x41, \\u0041 or \\U00000041");
    position += 1 + digits;
    return *value;
  }

  Sequence oneOf(const CodePointSet &set) {
    const auto [known, isNew] = classes.try_emplace(set);
    if (!isNew)
      return known->second;
    const std::vector<Sequence> sequences = utf8Sequences(grammar, set);
    if (sequences.size() < 2)
      return known->second = sequences.empty() ? Sequence() : sequences[0];
    const uint32_t rule = grammar.addRule();
    for (const Sequence &sequence : sequences)
      grammar.addAlternative(rule, sequence);
    return known->second = {Grammar::ruleOf(rule)};
  }

  Status readQuantifier(Sequence &item) {
    const size_t begin = position;
    const std::optional<Quantifier> times = takeQuantifier(text, position, true);
    if ((!times && accept("{")) || (times && times->most < times->least))
      return errorAt(begin, "expected a quantifier as {2}, {2,} or {2,5}");
    if (!times)
      return {};
    if (times->least > kMostCount || (times->most != kUnbounded && times->most > kMostCount))
      return errorAt(begin, "a count of more than ", kMostCount);
    repeat(item, times->least, times->most);
    return {};
  }

  void repeat(Sequence &item, uint32_t least, uint32_t most) {
    if (item.empty())
      return;
    if (item.size() > 1) {
      const uint32_t whole = grammar.addRule();
      grammar.addAlternative(whole, item);
      item = {Grammar::ruleOf(whole)};
    }
    uint32_t rest = grammar.addRule();
    grammar.addAlternative(rest, {});
    auto follow = [&](uint32_t rule, uint32_t next) {
      Sequence more = item;
      more.push_back(Grammar::ruleOf(next));
      grammar.addAlternative(rule, more);
    };
    if (most == kUnbounded)
      follow(rest, rest);
    for (uint32_t i = least; most != kUnbounded && i < most; ++i) {
      const uint32_t longer = grammar.addRule();
      follow(longer, rest);
      grammar.addAlternative(longer, {});
      rest = longer;
    }
    elements += 3 * size_t(most == kUnbounded ? 1 : most - least);
    Sequence all;
    for (uint32_t i = 0; i < least; ++i)
      all.insert(all.end(), item.begin(), item.end());
    all.push_back(Grammar::ruleOf(rest));
    item = std::move(all);
  }

  Grammar grammar;
  std::map<std::string_view, Rule> rules;
  std::map<uint32_t, std::string_view> madeFor; // From that rule on; rule 0 is "root".
  std::map<CodePointSet, Sequence> classes;
  uint32_t depth = 0;
  size_t elements = 0; // In all sequences.
};

} // namespace

Result<Grammar> grammarOfGbnf(std::string_view text) {
  return GbnfReader(text).read();
}

} // namespace moert
