// Reads patterns. What a part matches with all that follows it is one set, so that anchors and
// lookaheads, which have no characters of their own, are met where they are.
#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/grammar/Quantifier.h"
#include "runtime/text/grammar/StringRules.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace moert {

namespace {

using Set = StringSets::Set;

constexpr uint32_t kMostCount = 1024; // In a quantifier.
constexpr size_t kMostBytes = 2048;   // In a pattern.
constexpr uint32_t kMostGroups = 64;  // Within each other.

/// A part of a pattern. All but kSet have no characters of their own: what follows them decides.
struct Part {
  enum class Kind : uint8_t { kSet, kBegin, kEnd, kAhead, kSequence, kAlternatives };
  Kind kind;
  Set set = StringSets::kEmptyText; // kSet
  bool isNegative = false;          // kAhead
  std::vector<Part> parts = {};     // kAhead: one.

  /// Whether it matches the empty text only.
  bool hasNoWidth() const {
    return kind == Kind::kSet ? set == StringSets::kEmptyText
           : kind == Kind::kSequence || kind == Kind::kAlternatives
               ? std::all_of(parts.begin(), parts.end(),
                             [](const Part &part) { return part.hasNoWidth(); })
               : true;
  }
  bool hasBegin() const {
    return kind == Kind::kBegin || std::any_of(parts.begin(), parts.end(),
                                               [](const Part &part) { return part.hasBegin(); });
  }
};

CodePointSet classOf(char letter) {
  CodePointSet set;
  switch (letter) {
  case 'w':
    set.add('a', 'z');
    set.add('A', 'Z');
    set.add('_', '_');
    [[fallthrough]];
  case 'd':
    set.add('0', '9');
    return set;
  default: // 's'
    for (const auto &[first, last] :
         std::initializer_list<std::pair<uint32_t, uint32_t>>{{0x9, 0xD},
                                                              {0x20, 0x20},
                                                              {0xA0, 0xA0},
                                                              {0x1680, 0x1680},
                                                              {0x2000, 0x200A},
                                                              {0x2028, 0x2029},
                                                              {0x202F, 0x202F},
                                                              {0x205F, 0x205F},
                                                              {0x3000, 0x3000},
                                                              {0xFEFF, 0xFEFF}})
      set.add(first, last);
    return set;
  }
}

class PatternParser : TextReader {
public:
  PatternParser(StringSets &stringSets, std::string_view pattern)
      : TextReader(pattern), sets(stringSets) {}

  Result<Set> parse() {
    if (!sets.hasStepsForPatterns())
      return invalidInput("too many steps");
    if (text.size() > kMostBytes)
      return invalidInput("has ", text.size(), " bytes, expected at most ", kMostBytes);
    MOERT_ASSIGN_OR_RETURN(const Part all, alternatives());
    if (position < text.size())
      return invalidInput("has a ')' without its '('");
    // The match begins with the text, or later.
    MOERT_ASSIGN_OR_RETURN(const Set first, followed(all, StringSets::kAll, true));
    MOERT_ASSIGN_OR_RETURN(const Set later, followed(all, StringSets::kAll, false));
    if (sets.isFull())
      return invalidInput("is too large");
    return sets.unionOf(
        {first, sets.concatenation(sets.ofLength(1, StringSets::kUnbounded), later)});
  }

private:
  Part joined(Part::Kind kind, std::vector<Part> parts) {
    const bool areSets = std::all_of(
        parts.begin(), parts.end(), [](const Part &part) { return part.kind == Part::Kind::kSet; });
    if (parts.size() == 1)
      return std::move(parts[0]);
    if (!areSets)
      return {kind, StringSets::kEmptyText, false, std::move(parts)};
    Set all = kind == Part::Kind::kSequence ? StringSets::kEmptyText : StringSets::kNone;
    for (size_t i = parts.size(); i-- > 0;)
      all = kind == Part::Kind::kSequence ? sets.concatenation(parts[i].set, all)
                                          : sets.unionOf({parts[i].set, all});
    return {Part::Kind::kSet, all};
  }

  Result<Part> alternatives() {
    std::vector<Part> all;
    do {
      std::vector<Part> sequence;
      while (!atEnd() && text[position] != '|' && text[position] != ')') {
        MOERT_ASSIGN_OR_RETURN(Part next, term());
        MOERT_ASSIGN_OR_RETURN(Part repeated, quantified(std::move(next)));
        sequence.push_back(std::move(repeated));
      }
      all.push_back(joined(Part::Kind::kSequence, std::move(sequence)));
    } while (accept("|"));
    return joined(Part::Kind::kAlternatives, std::move(all));
  }

  Result<Part> term() {
    if (accept("^"))
      return Part{Part::Kind::kBegin};
    if (accept("$"))
      return Part{Part::Kind::kEnd};
    if (accept("("))
      return group();
    MOERT_ASSIGN_OR_RETURN(const CodePointSet set, characters());
    return Part{Part::Kind::kSet, sets.character(set)};
  }

  Result<Part> group() {
    if (accept("?<=") || accept("?<!"))
      return invalidInput("has a lookbehind");
    const bool isNegative = accept("?!"), isAhead = isNegative || accept("?=");
    if (!isAhead && !accept("?:") && accept("?")) {
      const size_t nameEnd = text.find('>', position);
      if ((!accept("<") && !accept("P<")) || nameEnd == std::string_view::npos)
        return invalidInput("has a group of an unknown kind");
      position = nameEnd + 1;
    }
    if (++depth > kMostGroups)
      return invalidInput("has more than ", kMostGroups, " groups in each other");
    MOERT_ASSIGN_OR_RETURN(Part inner, alternatives());
    --depth;
    if (!accept(")"))
      return invalidInput("has a '(' without its ')'");
    if (!isAhead)
      return inner;
    Part ahead = {Part::Kind::kAhead, StringSets::kEmptyText, isNegative};
    ahead.parts.push_back(std::move(inner));
    return ahead;
  }

  Result<Part> quantified(Part part) {
    const std::optional<Quantifier> times = takeQuantifier(text, position, false);
    if (!times)
      return part;
    accept("?"); // Whether it matches more or less changes no set.
    const auto [least, most] = *times;
    if (least > kMostCount || (most != StringSets::kUnbounded && most > kMostCount))
      return invalidInput("has a count of more than ", kMostCount);
    if (most < least)
      return invalidInput("has a quantifier of at least ", least, " and at most ", most);
    if (part.kind == Part::Kind::kSet)
      return Part{Part::Kind::kSet, sets.repetition(part.set, least, most)};
    if (most != 1)
      return invalidInput("repeats a group with an anchor or a lookahead");
    std::vector<Part> choice;
    choice.push_back(std::move(part));
    if (least == 0)
      choice.push_back({Part::Kind::kSet});
    return joined(Part::Kind::kAlternatives, std::move(choice));
  }

  Result<CodePointSet> characters() {
    if (accept("."))
      return lineEnds().complement();
    if (accept("["))
      return bracketed();
    if (accept("\\"))
      return escape(false);
    if (text[position] == '*' || text[position] == '+' || text[position] == '?')
      return invalidInput("has nothing before '", text[position], "'");
    const uint32_t character = takeCharacter().value;
    return CodePointSet(character, character);
  }

  static CodePointSet lineEnds() {
    CodePointSet ends('\n', '\n');
    ends.add('\r', '\r');
    ends.add(0x2028, 0x2029);
    return ends;
  }

  Result<CodePointSet> bracketed() {
    const bool isNegative = accept("^");
    std::vector<CodePointSet::Range> ranges;
    while (!accept("]")) {
      MOERT_ASSIGN_OR_RETURN(const CodePointSet first, member());
      const bool isRange = next("-") && !next("-]");
      if (!isRange) {
        ranges.insert(ranges.end(), first.ranges().begin(), first.ranges().end());
        continue;
      }
      ++position;
      MOERT_ASSIGN_OR_RETURN(const CodePointSet last, member());
      const uint32_t begin = first.ranges().front().first, end = last.ranges().front().first;
      const bool areCharacters =
          first == CodePointSet(begin, begin) && last == CodePointSet(end, end);
      if (!areCharacters || begin > end)
        return invalidInput("has a class whose range does not ascend");
      ranges.push_back({begin, end});
    }
    const CodePointSet all(std::move(ranges));
    return isNegative ? all.complement() : all;
  }

  Result<CodePointSet> member() {
    if (atEnd())
      return invalidInput("has a '[' without its ']'");
    if (accept("\\"))
      return escape(true);
    const uint32_t character = takeCharacter().value;
    return CodePointSet(character, character);
  }

  Result<CodePointSet> escape(bool isInClass) {
    if (atEnd())
      return invalidInput("ends with a backslash");
    const uint32_t letter = takeCharacter().value;
    auto one = [](uint32_t codePoint) { return CodePointSet(codePoint, codePoint); };
    if (letter == 'd' || letter == 'w' || letter == 's')
      return classOf(static_cast<char>(letter));
    if (letter == 'D' || letter == 'W' || letter == 'S')
      return classOf(static_cast<char>(letter + ('a' - 'A'))).complement();
    constexpr std::string_view kLetters = "tnvfr0", kMeanings("\t\n\v\f\r\0", 6);
    if (letter < 0x80 && kLetters.find(static_cast<char>(letter)) != std::string_view::npos)
      return one(static_cast<unsigned char>(kMeanings[kLetters.find(static_cast<char>(letter))]));
    if (letter == 'b' && isInClass)
      return one('\b');
    if (letter == 'c' && !atEnd())
      return one(takeCharacter().value % 32);
    if (letter == 'x' || letter == 'u')
      return hexadecimal(letter == 'x' ? 2 : 4);
    const bool isWord = classOf('w').has(letter) && letter != '_';
    if (isWord)
      return invalidInput("has the escape '\\", static_cast<char>(letter), "'");
    return one(letter);
  }

  /// After \x or \u: so many digits, or any number of them in braces.
  Result<CodePointSet> hexadecimal(size_t digits) {
    const bool isBraced = digits == 4 && accept("{");
    const size_t end = isBraced ? text.find('}', position) : position + digits;
    const std::optional<uint32_t> value =
        end <= text.size() ? codePointOf(text.substr(position, end - position)) : std::nullopt;
    if (!value)
      return invalidInput("has an escape that is no character");
    position = end + (isBraced ? 1 : 0);
    return CodePointSet(*value, *value);
  }

  /// The texts of a part and of what follows it. atBegin: nothing comes before the part.
  Result<Set> followed(const Part &part, Set rest, bool atBegin) {
    std::vector<Set> alternatives;
    switch (part.kind) {
    case Part::Kind::kSet:
      return sets.concatenation(part.set, rest);
    case Part::Kind::kBegin:
      return atBegin ? rest : StringSets::kNone;
    case Part::Kind::kEnd:
      return sets.hasEmptyText(rest) ? StringSets::kEmptyText : StringSets::kNone;
    case Part::Kind::kAhead: {
      MOERT_ASSIGN_OR_RETURN(Set ahead, followed(part.parts[0], StringSets::kAll, atBegin));
      return sets.intersection({rest, part.isNegative ? sets.complement(ahead) : ahead});
    }
    case Part::Kind::kAlternatives:
      for (const Part &one : part.parts) {
        MOERT_ASSIGN_OR_RETURN(const Set alternative, followed(one, rest, atBegin));
        alternatives.push_back(alternative);
      }
      return sets.unionOf(std::move(alternatives));
    case Part::Kind::kSequence:
      break;
    }
    std::vector<bool> begins = {atBegin};
    for (const Part &one : part.parts) {
      const bool mayBegin = begins.back() && !one.hasNoWidth() &&
                            (one.kind != Part::Kind::kSet || sets.hasEmptyText(one.set));
      const auto next = part.parts.begin() + static_cast<ptrdiff_t>(begins.size());
      if (mayBegin &&
          std::any_of(next, part.parts.end(), [](const Part &later) { return later.hasBegin(); }))
        return invalidInput("has a '^' after a part that may be empty");
      begins.push_back(begins.back() && one.hasNoWidth());
    }
    for (size_t i = part.parts.size(); i-- > 0;) {
      MOERT_ASSIGN_OR_RETURN(rest, followed(part.parts[i], rest, begins[i]));
    }
    return rest;
  }

  StringSets &sets;
  uint32_t depth = 0;
};

} // namespace

Result<Set> setOfPattern(StringSets &sets, std::string_view pattern) {
  return PatternParser(sets, pattern).parse();
}

} // namespace moert
