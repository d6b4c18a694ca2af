#include "runtime/tokenizer/RegexPatterns.h"

#include "runtime/base/Utf8.h"
#include "runtime/tokenizer/Regex.h"

#include <algorithm>
#include <iterator>

namespace moert {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kNumericPattern = R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])";
const std::string_view kWhiteSpacePattern = R"(\s)";
const std::string_view kWordPattern = R"([\p{Alphabetic}\p{L}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])";

namespace {

#define MOERT_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define MOERT_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define MOERT_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define MOERT_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"

// The published patterns, as spelled in tokenizer.json.
constexpr std::string_view kPublished[] = {
    // Llama 3, cl100k, GLM-4, DBRX.
    MOERT_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" MOERT_SPACES,
    // Qwen 2 and 3.
    MOERT_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" MOERT_SPACES,
    // The same with combining marks as parts of words (Qwen 3.5).
    MOERT_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" MOERT_SPACES,
    // o200k (gpt-oss, Llama 4).
    R"([^\r\n\p{L}\p{N}]?)" MOERT_UPPER "*" MOERT_LOWER "+" MOERT_CONTRACTIONS
    R"(?|[^\r\n\p{L}\p{N}]?)" MOERT_UPPER "+" MOERT_LOWER "*" MOERT_CONTRACTIONS
    R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" MOERT_SPACES,
    // Tekken (Mistral).
    R"([^\r\n\p{L}\p{N}]?)" MOERT_UPPER "*" MOERT_LOWER R"(+|[^\r\n\p{L}\p{N}]?)" MOERT_UPPER
    "+" MOERT_LOWER R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" MOERT_SPACES,
    // DeepSeek V3's third; its other two are single classes.
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*)" MOERT_SPACES,
    // Ling, Ring (Bailing).
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)",
    // Seed.
    MOERT_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)" MOERT_SPACES,
};

// Characters that Unicode 15, 15.1 and 16 added to a property; PCRE2 10.42 implements version 14. A
// later PCRE2 that has them matches the same.
struct PropertyAdditions {
  std::string_view name;
  std::string_view ranges;
};

#define MOERT_LM_ADDITIONS                                                                         \
  R"(\x{10D4E}\x{10D6F}\x{16D40}-\x{16D42}\x{16D6B}-\x{16D6C}\x{1E030}-\x{1E06D}\x{1E4EB})"
#define MOERT_LU_ADDITIONS R"(\x{1C89}\x{A7CB}-\x{A7CC}\x{A7DA}\x{A7DC}\x{10D50}-\x{10D65})"
#define MOERT_LL_ADDITIONS R"(\x{1C8A}\x{A7CD}\x{A7DB}\x{10D70}-\x{10D85}\x{1DF25}-\x{1DF2A})"
#define MOERT_LO_ADDITIONS                                                                         \
  R"(\x{105C0}-\x{105F3}\x{10D4A}-\x{10D4D}\x{10D4F}\x{10EC2}-\x{10EC4}\x{1123F}-\x{11240})"       \
  R"(\x{11380}-\x{11389}\x{1138B}\x{1138E}\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3})"         \
  R"(\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F})"                 \
  R"(\x{13441}-\x{13446}\x{13460}-\x{143FA}\x{16100}-\x{1611D}\x{16D43}-\x{16D6A}\x{18CFF})"       \
  R"(\x{1B132}\x{1B155}\x{1E4D0}-\x{1E4EA}\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739})"                  \
  R"(\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})"
#define MOERT_ND_ADDITIONS                                                                         \
  R"(\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59})"                \
  R"(\x{16130}-\x{16139}\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1E4F0}-\x{1E4F9})"                \
  R"(\x{1E5F1}-\x{1E5FA})"

constexpr PropertyAdditions kAdditions[] = {
    {"L", MOERT_LU_ADDITIONS MOERT_LL_ADDITIONS MOERT_LM_ADDITIONS MOERT_LO_ADDITIONS},
    {"Lu", MOERT_LU_ADDITIONS},
    {"Ll", MOERT_LL_ADDITIONS},
    {"Lm", MOERT_LM_ADDITIONS},
    {"Lo", MOERT_LO_ADDITIONS},
    {"Lt", ""},
    {"N", MOERT_ND_ADDITIONS R"(\x{1D2C0}-\x{1D2D3})"},
    {"Nd", MOERT_ND_ADDITIONS},
    {"M",
     R"(\x{897}\x{CF3}\x{ECE}\x{10D69}-\x{10D6D}\x{10EFC}-\x{10EFF}\x{11241}\x{113B8}-\x{113C0})"
     R"(\x{113C2}\x{113C5}\x{113C7}-\x{113CA}\x{113CC}-\x{113D0}\x{113D2}\x{113E1}-\x{113E2})"
     R"(\x{11F00}-\x{11F01}\x{11F03}\x{11F34}-\x{11F3A}\x{11F3E}-\x{11F42}\x{11F5A}\x{13440})"
     R"(\x{13447}-\x{13455}\x{1611E}-\x{1612F}\x{1E08F}\x{1E4EC}-\x{1E4EF}\x{1E5EE}-\x{1E5EF})"},
    {"P", R"(\x{1B4E}-\x{1B4F}\x{1B7F}\x{10D6E}\x{113D4}-\x{113D5}\x{113D7}-\x{113D8})"
          R"(\x{11B00}-\x{11B09}\x{11BE1}\x{11F43}-\x{11F4F}\x{16D6D}-\x{16D6F}\x{1E5FF})"},
    {"S",
     R"(\x{2427}-\x{2429}\x{2FFC}-\x{2FFF}\x{31E4}-\x{31E5}\x{31EF}\x{10D8E}-\x{10D8F})"
     R"(\x{1CC00}-\x{1CCEF}\x{1CD00}-\x{1CEB3}\x{1F6DC}\x{1F774}-\x{1F776}\x{1F77B}-\x{1F77F})"
     R"(\x{1F7D9}\x{1F8B2}-\x{1F8BB}\x{1F8C0}-\x{1F8C1}\x{1FA75}-\x{1FA77}\x{1FA87}-\x{1FA89})"
     R"(\x{1FA8F}\x{1FAAD}-\x{1FAAF}\x{1FABB}-\x{1FABF}\x{1FAC6}\x{1FACE}-\x{1FACF})"
     R"(\x{1FADA}-\x{1FADC}\x{1FADF}\x{1FAE8}-\x{1FAE9}\x{1FAF7}-\x{1FAF8}\x{1FBCB}-\x{1FBEF})"},
    {"Pc", ""},
    {"Alphabetic", ""}, // Used by kWordPattern, which lists the properties that grew separately.
    {"Join_Control", ""},
};

// White_Space, spelled out: PCRE2's own \s contains U+180E as well.
constexpr std::string_view kWhiteSpaceRanges =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

const PropertyAdditions *findProperty(std::string_view name) {
  const auto *property =
      std::find_if(std::begin(kAdditions), std::end(kAdditions),
                   [&](const auto &candidate) { return candidate.name == name; });
  return property == std::end(kAdditions) ? nullptr : property;
}

// The name in "p{name}" at the start of text; empty if there is none.
std::string_view propertyName(std::string_view text) {
  if (!text.starts_with("p{"))
    return {};
  size_t close = text.find('}');
  return close == std::string_view::npos ? std::string_view() : text.substr(2, close - 2);
}

// Translates the escape whose backslash is just before text. Returns its length, or 0 if it is
// unknown.
size_t translateEscape(std::string_view text, bool inClass, std::string &out) {
  auto appendClass = [&](std::string_view prefix, std::string_view name, std::string_view ranges) {
    out.append(inClass ? "" : prefix).append(name).append(ranges).append(inClass ? "" : "]");
  };
  if (text.empty())
    return 0;
  if (text[0] == 's') {
    appendClass("[", "", kWhiteSpaceRanges);
    return 1;
  }
  if (text[0] == 'S' && !inClass) {
    appendClass("[^", "", kWhiteSpaceRanges);
    return 1;
  }
  if (std::string_view name = propertyName(text); !name.empty()) {
    const PropertyAdditions *property = findProperty(name);
    if (!property)
      return 0;
    appendClass("[", "\\p{" + std::string(name) + "}", property->ranges);
    return name.size() + 3;
  }
  if (std::string_view("rntx[]\\^-.+*?(){}|/$").find(text[0]) == std::string_view::npos)
    return 0;
  out.append("\\").append(text.substr(0, 1));
  return 1;
}

// Length of the character class at the start of text ("[...]", "\s" or "\p{X}"), 0 if there is
// none. Accepts only syntax that both engines read alike: no nested class, no intersection, a minus
// only in plain ranges.
size_t singleClassLength(std::string_view text) {
  if (text.starts_with("\\s"))
    return 2;
  if (text.starts_with("\\"))
    return findProperty(propertyName(text.substr(1))) ? text.find('}') + 1 : 0;
  if (!text.starts_with("["))
    return 0;
  size_t first = text.substr(1).starts_with("^") ? 2 : 1;
  bool afterLiteral = false; // A minus here would start a range.
  for (size_t i = first; i < text.size();) {
    if (text[i] == ']')
      return i == first ? 0 : i + 1;
    if (text[i] == '[' || text[i] == '&')
      return 0;
    if (text[i] == '\\') {
      std::string ignored;
      size_t length = translateEscape(text.substr(i + 1), true, ignored);
      if (length == 0 || text[i + 1] == 'x')
        return 0;
      afterLiteral = false;
      i += 1 + length;
    } else if (text[i] == '-') {
      bool hasEnd = i + 1 < text.size() &&
                    std::string_view("]\\[-").find(text[i + 1]) == std::string_view::npos;
      if (!afterLiteral || !hasEnd)
        return 0;
      i += 1 + utf8Length(text[i + 1]);
      afterLiteral = false;
    } else {
      i += utf8Length(text[i]);
      afterLiteral = true;
    }
  }
  return 0;
}

bool isSingleClass(std::string_view pattern) {
  for (std::string_view optional : {" ?", "\\s?"})
    if (pattern.starts_with(optional)) {
      pattern.remove_prefix(optional.size());
      break;
    }
  size_t length = singleClassLength(pattern);
  if (length == 0)
    return false;
  std::string_view rest = pattern.substr(length);
  for (std::string_view allowed : {"", "+", "{1,3}", "+$"})
    if (rest == allowed)
      return true;
  return false;
}

// Some files (DeepSeek's) contain literal line breaks where others have \r and \n; both mean the
// same.
std::string withEscapedLineBreaks(std::string_view pattern) {
  std::string escaped;
  for (char c : pattern) {
    if (c == '\r' || c == '\n')
      escaped += c == '\r' ? "\\r" : "\\n";
    else
      escaped += c;
  }
  return escaped;
}

} // namespace

bool isKnownPattern(std::string_view pattern) {
  std::string escaped = withEscapedLineBreaks(pattern);
  return pattern == kGpt2Pattern ||
         std::find(std::begin(kPublished), std::end(kPublished), escaped) != std::end(kPublished) ||
         (isValidUtf8(pattern) && isSingleClass(pattern));
}

std::optional<std::string> translatePattern(std::string_view pattern) {
  if (!isKnownPattern(pattern) && pattern != kNumericPattern && pattern != kWordPattern)
    return std::nullopt;
  std::string out;
  bool inClass = false;
  for (size_t i = 0; i < pattern.size();) {
    if (pattern[i] == '\\') {
      size_t length = translateEscape(pattern.substr(i + 1), inClass, out);
      if (length == 0)
        return std::nullopt;
      i += 1 + length;
      continue;
    }
    if (pattern[i] == '[')
      inClass = true;
    else if (pattern[i] == ']')
      inClass = false;
    out.push_back(pattern[i++]);
  }
  return out;
}

} // namespace moert
