#include "runtime/text/tokenizer/RegexProperties.h"

#include <algorithm>
#include <iterator>

namespace moert {
namespace {

enum class Use {
  kCategory,
  kScript,      // Written sc:name, because PCRE2's plain name includes script extensions.
  kWordPattern, // For kWordPattern, which lists the properties that grew; otherwise not exact.
};

// Characters that Unicode 15, 15.1 and 16 added to a property; PCRE2 10.42 implements version 14. A
// later PCRE2 that has them matches the same.
struct PropertyAdditions {
  std::string_view name;
  std::string_view ranges;
  Use use = Use::kCategory;
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

#define MOERT_PO_ADDITIONS                                                                         \
  R"(\x{1B4E}-\x{1B4F}\x{1B7F}\x{113D4}-\x{113D5}\x{113D7}-\x{113D8})"                             \
  R"(\x{11B00}-\x{11B09}\x{11BE1}\x{11F43}-\x{11F4F}\x{16D6D}-\x{16D6F}\x{1E5FF})"
#define MOERT_SO_ADDITIONS                                                                         \
  R"(\x{2427}-\x{2429}\x{2FFC}-\x{2FFF}\x{31E4}-\x{31E5}\x{31EF})"                                 \
  R"(\x{1CC00}-\x{1CCEF}\x{1CD00}-\x{1CEB3}\x{1F6DC}\x{1F774}-\x{1F776}\x{1F77B}-\x{1F77F})"       \
  R"(\x{1F7D9}\x{1F8B2}-\x{1F8BB}\x{1F8C0}-\x{1F8C1}\x{1FA75}-\x{1FA77}\x{1FA87}-\x{1FA89})"       \
  R"(\x{1FA8F}\x{1FAAD}-\x{1FAAF}\x{1FABB}-\x{1FABF}\x{1FAC6}\x{1FACE}-\x{1FACF})"                 \
  R"(\x{1FADA}-\x{1FADC}\x{1FADF}\x{1FAE8}-\x{1FAE9}\x{1FAF7}-\x{1FAF8}\x{1FBCB}-\x{1FBEF})"

constexpr PropertyAdditions kAdditions[] = {
    {"L", MOERT_LU_ADDITIONS MOERT_LL_ADDITIONS MOERT_LM_ADDITIONS MOERT_LO_ADDITIONS},
    {"Lu", MOERT_LU_ADDITIONS},
    {"Ll", MOERT_LL_ADDITIONS},
    {"Lm", MOERT_LM_ADDITIONS},
    {"Lo", MOERT_LO_ADDITIONS},
    {"Lt", ""},
    {"N", MOERT_ND_ADDITIONS R"(\x{1D2C0}-\x{1D2D3})"},
    {"Nd", MOERT_ND_ADDITIONS},
    {"Nl", ""},
    {"No", R"(\x{1D2C0}-\x{1D2D3})"},
    {"M",
     R"(\x{897}\x{CF3}\x{ECE}\x{10D69}-\x{10D6D}\x{10EFC}-\x{10EFF}\x{11241}\x{113B8}-\x{113C0})"
     R"(\x{113C2}\x{113C5}\x{113C7}-\x{113CA}\x{113CC}-\x{113D0}\x{113D2}\x{113E1}-\x{113E2})"
     R"(\x{11F00}-\x{11F01}\x{11F03}\x{11F34}-\x{11F3A}\x{11F3E}-\x{11F42}\x{11F5A}\x{13440})"
     R"(\x{13447}-\x{13455}\x{1611E}-\x{1612F}\x{1E08F}\x{1E4EC}-\x{1E4EF}\x{1E5EE}-\x{1E5EF})"},
    {"Me", ""},
    {"P", R"(\x{10D6E})" MOERT_PO_ADDITIONS},
    {"Pc", ""},
    {"Pd", R"(\x{10D6E})"},
    {"Ps", ""},
    {"Pe", ""},
    {"Pi", ""},
    {"Pf", ""},
    {"Po", MOERT_PO_ADDITIONS},
    {"S", R"(\x{10D8E}-\x{10D8F})" MOERT_SO_ADDITIONS},
    {"Sm", R"(\x{10D8E}-\x{10D8F})"},
    {"Sc", ""},
    {"Sk", ""},
    {"So", MOERT_SO_ADDITIONS},
    {"Z", ""},
    {"Zs", ""},
    {"Zl", ""},
    {"Zp", ""},
    {"Cc", ""},
    {"Han", R"(\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})", Use::kScript},
    {"Hiragana", R"(\x{1B132})", Use::kScript},
    {"Katakana", R"(\x{1B155})", Use::kScript},
    {"Hangul", "", Use::kScript},
    {"Latin", R"(\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{1DF25}-\x{1DF2A})", Use::kScript},
    {"Greek", "", Use::kScript},
    {"Cyrillic", R"(\x{1C89}-\x{1C8A}\x{1E030}-\x{1E06D}\x{1E08F})", Use::kScript},
    {"Arabic", R"(\x{897}\x{10EC2}-\x{10EC4}\x{10EFC}-\x{10EFF})", Use::kScript},
    {"Hebrew", "", Use::kScript},
    {"Thai", "", Use::kScript},
    {"Devanagari", R"(\x{11B00}-\x{11B09})", Use::kScript},
    {"Alphabetic", "", Use::kWordPattern},
    {"Join_Control", "", Use::kWordPattern},
};

} // namespace

// Spelled out: PCRE2's own \s contains U+180E as well.
const std::string_view kWhiteSpaceMembers =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

std::optional<std::string> propertyMembers(std::string_view name, bool forWordPattern) {
  const auto *property =
      std::find_if(std::begin(kAdditions), std::end(kAdditions),
                   [&](const auto &candidate) { return candidate.name == name; });
  if (property == std::end(kAdditions) || (property->use == Use::kWordPattern && !forWordPattern))
    return std::nullopt;
  return std::string(property->use == Use::kScript ? "\\p{sc:" : "\\p{")
      .append(name)
      .append("}")
      .append(property->ranges);
}

} // namespace moert
