// Regular expressions as tokenizer.json spells them: what they match, and what is refused. The
// expected pieces are those of the PyPI package tokenizers 0.23.3 (pre_tokenizers.Split).
#include "runtime/text/tokenizer/PreTokenizer.h"

#include <doctest/doctest.h>

using namespace moert;

namespace {

using Pieces = std::vector<std::string>;

class Collector final : public PieceSink {
public:
  Status take(std::string_view piece) override {
    pieces.emplace_back(piece);
    return {};
  }
  Pieces pieces;
};

struct Split {
  const char *pattern;
  const char *text;
  Pieces pieces;
};

Pieces cut(const char *pattern, std::string_view text, SplitBehavior behavior) {
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::kSplitRegex;
  step.pattern = pattern;
  step.behavior = behavior;
  Result<PreTokenizer> preTokenizer = PreTokenizer::make({step});
  REQUIRE_MESSAGE(preTokenizer.isOk(), preTokenizer.status().message());
  RegexScratch scratch;
  Collector collector;
  REQUIRE(preTokenizer->run(text, true, scratch, collector).isOk());
  return collector.pieces;
}

// What is left of the text when all matches are removed.
const Split kRemoved[] = {
    {R"(\p{N}{1,3}+)", "1234567a12", {"a"}},
    {R"(a{1,3}?b)", "aaaab", {"a"}},
    {R"(a{2,})", "aaab", {"b"}},
    {R"([\s-]+)", "a - b", {"a", "b"}},
    {R"([-a]+)", "b-a-b", {"b", "b"}},
    {R"([^(\s|[.,!?])]+)", "ab (c|d). e!", {" (", "|", "). ", "!"}},
    {R"([a-z&&[^m-p]c]+)", "lmnopqcm", {"mnop", "m"}},
    {R"([^a-z&&[^m-p]]+)", "lmnopqcm1", {"l", "qc"}},
    {R"([^\S\r\n]+)", "a \t\n b", {"a", "\n", "b"}},
    {R"(\d+)", "12\u0663\u00BD\u00B2x", {"\u00BD\u00B2x"}},
    {R"(\D+)", "12\u0663\u00BD\u00B2x", {"12\u0663"}},
    {R"((?i:[k])+)", "kK\u212Ax", {"x"}},
    {R"((?i:'s))", "'\u017F'S", {}},
    {R"(]+)", "a]]b", {"a", "b"}},
    {R"(.+)", "ab\ncd\r\ne", {"\n", "\n"}},
    {R"([\u4e00-\u9fa5\x{3041}]+)", "a\u4E2D\u3041b", {"a", "b"}},
    {R"(\P{L}+|\p{^N})", "a1 b", {}},
    {R"([^\p{^L}b]+)", "a1b-c", {"1b-"}},
    {R"((?>a|ab)c)", "abc ac", {"abc "}},
    {R"(\s++$|\s)", "a  \nb  ", {"a", "b"}},
    {R"(\p{Han}+|\p{Hiragana}+)",
     "\u65E5\u672C\U00031350\u306E\u30FC\u30CE\u3005",
     {"\u30FC\u30CE"}},
    {R"([ａ-ｚ\-\]]+)", "a\uFF42-]c", {"a", "c"}},
    {R"(a(?=b)|b(?!c))", "abcbb", {"bc"}},
    {R"(a++b?)", "aaab", {}},
    {R"(\/|\#|\v)", "a/b#c\013d", {"a", "b", "c", "d"}},
};

// Kimi, Ling, cl100k and MiniMax.
const Split kPublished[] = {
    {R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "Hello\u6F22\u5B57World \u00FCn\u00EF\u00C7123456 don'T\n\n x",
     {"Hello", "\u6F22\u5B57", "World", " \u00FCn\u00EF", "\u00C7", "123", "456", " don'T", "\n\n",
      " x"}},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
     "We'Ve 12\n\n  x!?\n",
     {"We", "'Ve", " ", "1", "2", "\n\n", " ", " x", "!?\n"}},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
     "We'Ve 12345\n\n  x!?\n \t \n",
     {"We", "'Ve", " ", "12345", "\n\n", " ", " x", "!?\n", " \t \n"}},
    {R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "we'LL 12345 x",
     {"we", "'LL", " ", "123", "45", " x"}},
};

struct Refusal {
  const char *pattern;
  const char *reason;
};

const Refusal kRefusals[] = {
    {"", "found 0 bytes, expected 1 to 16384"},
    {"a\xff", "bytes of UTF-8"},
    {"(a+)+$", "at byte 5: found a repetition of a repetition"},
    {R"((?:\p{L}{2,}){3,})", "found a repetition of a repetition"},
    {R"(\p{N}{1,}+)", "found a repetition of a repetition"},
    {"(?=a)+", "found a repetition of a position"},
    {"[a-z]*", "it can match nothing"},
    {"a|", "it can match nothing"},
    {R"((?=(\d{3})+(?!\d)))", "it can match nothing"},
    {"[a", "at byte 2: found the end, expected ']'"},
    {"[]a]", "found an empty class"},
    {"[^]", "found an empty class"},
    {"[a&&]", "found an empty class or side of &&"},
    {"[a-c-e]", "found '-' that is neither in a range nor at an end"},
    {"[z-a]", "in descending order"},
    {"[a-\\p{L}]", "found a range without a last character"},
    {"[[:alpha:]]", "found '[:', which is not supported here"},
    {"[a\\", "found the end after a backslash"},
    {R"(\p{Foo})", "found the property 'Foo', which is not supported"},
    {R"([\p{Alphabetic}])", "found the property 'Alphabetic', which is not supported"},
    {R"(\pL)", "found a property without a name in braces"},
    {R"(\w+)", "at byte 1: found '\\w', which is not supported"},
    {R"(a\b)", "found '\\b', which is not supported"},
    {R"((a)\1)", "found '\\1', which is not supported"},
    {R"(\x{110000})", "found '110000', expected a character's hexadecimal number"},
    {R"(\ud800)", "found 'd800', expected a character's hexadecimal number"},
    {"(?<=a)b", "found '(?<=', which is not supported here"},
    {"(?i)ab", "found '(?i)', which is not supported here"},
    {"(a", "found the end, expected ')'"},
    {"a)", "found ')', which is not supported here"},
    {"+a", "found '+', which is not supported here"},
    {"a{,2}", "found ',', which is not supported here"},
    {"a{2,1}", "found a repetition of 2 to 1 times"},
    {"a{1001}", "found a repetition count above 1000"},
    {"a{2}?", "found '{2}?', which is not supported"},
    {"a+++", "found '+', which is not supported here"},
    {"(?i:\u00E9)", "found a character outside of ASCII in (?i:...)"},
    {"(?i:fish)", "found 'fi' in (?i:...), which is not supported"},
    {R"((?i:\p{Lu}))", "found a property in (?i:...)"},
    {R"((?i:[a\p{Lu}]))", "found a property in (?i:...)"},
};

} // namespace

TEST_CASE("every supported part of a pattern matches what it matches in the reference package") {
  for (const Split &split : kRemoved) {
    CAPTURE(split.pattern);
    CHECK(cut(split.pattern, split.text, SplitBehavior::kRemoved) == split.pieces);
  }
}

TEST_CASE("published patterns split a text as in the reference package") {
  for (const Split &split : kPublished) {
    CAPTURE(split.pattern);
    CHECK(cut(split.pattern, split.text, SplitBehavior::kIsolated) == split.pieces);
  }
}

TEST_CASE("what the engines read differently or could run forever is refused with its place") {
  for (const Refusal &refusal : kRefusals) {
    CAPTURE(refusal.pattern);
    Result<Regex> regex = Regex::compile(refusal.pattern);
    REQUIRE(!regex.isOk());
    CHECK_MESSAGE(regex.status().message().find(refusal.reason) != std::string::npos,
                  regex.status().message());
  }
}

TEST_CASE("patterns nested or longer than any published one are refused") {
  std::string groups;
  for (int i = 0; i < 17; ++i)
    groups += "(?:";
  CHECK(Regex::compile(groups + "a").status().message().find("deeper than 16 levels") !=
        std::string::npos);
  CHECK(!Regex::compile(std::string(20000, 'a')).isOk());
  CHECK(!Regex::compile(std::string(10000, '[')).isOk());
  // Within the limits of the translation, but too large for PCRE2.
  CHECK(!Regex::compile("(?:(?:(?:ab{1000}){1000}){1000}){1000}").isOk());
}

TEST_CASE("letters that Unicode 16 added are letters") {
  CHECK(cut(R"( ?[\p{L}]+)", "x\u1C89 \U0002EBF0!", SplitBehavior::kIsolated) ==
        Pieces{"x\u1C89", " \U0002EBF0", "!"});
}

TEST_CASE("a pattern may contain literal line breaks or their escapes") {
  const std::string text = "a\r\n\n b";
  CHECK(cut("\\s*[\\r\\n]+", text, SplitBehavior::kRemoved) == Pieces{"a", " b"});
  CHECK(cut("\\s*[\r\n]+", text, SplitBehavior::kRemoved) == Pieces{"a", " b"});
}
