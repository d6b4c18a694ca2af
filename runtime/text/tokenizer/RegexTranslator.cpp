#include "runtime/text/tokenizer/RegexTranslator.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/tokenizer/Regex.h"
#include "runtime/text/tokenizer/RegexProperties.h"
#include "runtime/text/tokenizer/RegexReader.h"

#include <charconv>

namespace moert {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kNumericPattern = R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])";
const std::string_view kWhiteSpacePattern = R"(\s)";
const std::string_view kWordPattern = R"([\p{Alphabetic}\p{L}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])";

namespace {

// The longest published pattern (DeepSeek V2's letters) has 2 KB.
constexpr size_t kMaxPatternBytes = 16384;
constexpr uint32_t kMaxRepeat = 1000;

// One element of a pattern, before its quantifier.
struct Atom {
  std::string text;
  bool isUnbounded = false; // Contains a repetition without an upper bound.
  bool isLookaround = false;
};

// Recursive descent over the pattern; every function returns the translation of what it consumed.
class Translator : private RegexReader {
public:
  explicit Translator(std::string_view source) : RegexReader(source) {}

  Result<std::string> translate() {
    if (text.empty() || text.size() > kMaxPatternBytes || !isValidUtf8(text))
      return invalidInput("found ", text.size(), " bytes, expected 1 to ", kMaxPatternBytes,
                          " bytes of UTF-8");
    bool isUnbounded = false;
    MOERT_ASSIGN_OR_RETURN(std::string all, alternatives(false, isUnbounded));
    if (!atEnd())
      return unsupported(")");
    return all;
  }

private:
  Result<std::string> alternatives(bool caseless, bool &isUnbounded);
  Result<Atom> element(bool caseless);
  Result<Atom> atom(bool caseless);
  Result<Atom> group(bool caseless);
  Result<Atom> literalAtom(uint32_t codePoint, bool caseless);
  Status quantify(Atom &atom);
  Result<std::string> interval(bool &isUnbounded);
  Result<uint32_t> number();

  char previousLetter = 0; // The literal letter before, lower case, in a caseless group.
};

Result<std::string> Translator::alternatives(bool caseless, bool &isUnbounded) {
  std::string out;
  previousLetter = 0;
  while (!atEnd() && !next(")")) {
    if (accept("|")) {
      out += "|";
      previousLetter = 0;
      continue;
    }
    MOERT_ASSIGN_OR_RETURN(Atom next, element(caseless));
    isUnbounded |= next.isUnbounded;
    out += next.text;
  }
  return out;
}

Result<Atom> Translator::element(bool caseless) {
  MOERT_ASSIGN_OR_RETURN(Atom result, atom(caseless));
  MOERT_RETURN_IF_ERROR(quantify(result));
  return result;
}

Result<Atom> Translator::atom(bool caseless) {
  if (next("("))
    return group(caseless);
  if (next("[")) {
    previousLetter = 0;
    MOERT_ASSIGN_OR_RETURN(CharacterSet set, characterClass(caseless));
    return Atom{set.expression()};
  }
  if (next("\\")) {
    MOERT_ASSIGN_OR_RETURN(Escape escaped, escape());
    if (escaped.isCharacter)
      return literalAtom(escaped.character, caseless);
    previousLetter = 0;
    if (caseless && escaped.set.members != kWhiteSpaceMembers)
      return refuse("found a property in (?i:...), which is not supported");
    return Atom{escaped.set.expression()};
  }
  if (accept("."))
    return Atom{"[^\\n]"};
  for (std::string_view anchor : {"^", "$"})
    if (accept(anchor))
      return Atom{std::string(anchor), false, true};
  if (std::string_view("*+?{").find(text[position]) != std::string_view::npos)
    return unsupported();
  return literalAtom(takeCharacter().value, caseless);
}

// Without case, Oniguruma also matches ligatures of several letters and more characters outside of
// ASCII than PCRE2.
Result<Atom> Translator::literalAtom(uint32_t codePoint, bool caseless) {
  char letter = 0;
  if (caseless) {
    if (codePoint >= 0x80)
      return refuse("found a character outside of ASCII in (?i:...), which is not supported");
    letter = static_cast<char>(codePoint);
    letter = isAsciiLetter(letter) ? static_cast<char>(letter | 0x20) : '\0';
    const char pair[] = {previousLetter, letter};
    for (std::string_view ligature : {"ss", "st", "ff", "fi", "fl"})
      if (std::string_view(pair, 2) == ligature)
        return refuse("found '", ligature, "' in (?i:...), which is not supported");
  }
  previousLetter = letter;
  return Atom{regexLiteral(codePoint)};
}

Result<Atom> Translator::group(bool caseless) {
  struct Opening {
    std::string_view source;
    std::string_view translation;
    bool isLookaround;
  };
  constexpr Opening kOpenings[] = {
      {"(?:", "(?:", false}, {"(?i:", "(?i:", false}, {"(?>", "(?>", false}, {"(?=", "(?=", true},
      {"(?!", "(?!", true},  {"(?", "", false},       {"(", "(?:", false}};
  const Opening *opening = kOpenings;
  while (!next(opening->source))
    ++opening;
  if (opening->translation.empty())
    return unsupported(text.substr(position, 4));
  MOERT_RETURN_IF_ERROR(enter());
  position += opening->source.size();
  Atom result{std::string(opening->translation), false, opening->isLookaround};
  MOERT_ASSIGN_OR_RETURN(std::string inner,
                         alternatives(caseless || opening->source == "(?i:", result.isUnbounded));
  if (!accept(")"))
    return refuse("found the end, expected ')'");
  --depth;
  previousLetter = 0;
  result.text += inner + ")";
  return result;
}

// A repetition of a repetition could take time that grows exponentially with the text.
Status Translator::quantify(Atom &atom) {
  constexpr std::string_view kQuantifiers = "?*+";
  std::string quantifier;
  bool repeats = false;
  bool isInterval = false;
  if (atEnd())
    return {};
  if (char c = text[position]; kQuantifiers.find(c) != std::string_view::npos) {
    quantifier = c;
    repeats = c != '?';
    ++position;
  } else if (c == '{') {
    isInterval = true;
    MOERT_ASSIGN_OR_RETURN(quantifier, interval(repeats));
  } else {
    return {};
  }
  previousLetter = 0;
  if (atom.isLookaround || (repeats && atom.isUnbounded))
    return refuse("found a repetition of a ", atom.isLookaround ? "position" : "repetition",
                  ", which is not supported");
  atom.isUnbounded |= repeats;
  atom.text += quantifier;
  if (isInterval && accept("+")) { // In Oniguruma not possessive, but a second quantifier.
    if (repeats)
      return refuse("found a repetition of a repetition, which is not supported");
    atom.text = "(?:" + atom.text + ")+";
    atom.isUnbounded = true;
  } else if (accept("?")) {
    if (isInterval && quantifier.find(',') == std::string::npos) // In Oniguruma (?:x{n})?.
      return refuse("found '", quantifier, "?', which is not supported");
    atom.text += "?";
  } else if (!isInterval && accept("+")) {
    atom.text += "+";
  }
  if (!atEnd() && (kQuantifiers.find(text[position]) != std::string_view::npos || next("{")))
    return unsupported();
  return {};
}

// {n}, {n,} or {n,m}.
Result<std::string> Translator::interval(bool &isUnbounded) {
  ++position;
  MOERT_ASSIGN_OR_RETURN(uint32_t least, number());
  std::string out = "{" + std::to_string(least);
  if (accept(",")) {
    isUnbounded = next("}");
    uint32_t most = kMaxRepeat;
    if (!isUnbounded) {
      MOERT_ASSIGN_OR_RETURN(most, number());
    }
    if (most < least)
      return refuse("found a repetition of ", least, " to ", most, " times");
    out += isUnbounded ? "," : "," + std::to_string(most);
  }
  if (!accept("}"))
    return unsupported();
  return out + "}";
}

Result<uint32_t> Translator::number() {
  uint32_t value = 0;
  const char *begin = text.data() + position;
  auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (end == begin)
    return unsupported();
  if (error != std::errc() || value > kMaxRepeat)
    return refuse("found a repetition count above ", kMaxRepeat);
  position += static_cast<size_t>(end - begin);
  return value;
}

} // namespace

Result<std::string> translatePattern(std::string_view text) {
  return Translator(text).translate();
}

} // namespace moert
