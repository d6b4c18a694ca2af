// The stages of text on its way to the model: UTF-8, normalization, splitting.
#include "runtime/base/Utf8.h"
#include "runtime/tokenizer/ByteAlphabet.h"
#include "runtime/tokenizer/Normalizer.h"
#include "runtime/tokenizer/PieceSplitter.h"
#include "runtime/tokenizer/PreTokenizer.h"

#include <doctest/doctest.h>

using namespace moert;

namespace {

std::string normalized(NormalizerStep::Kind kind, std::string text) {
  NormalizerStep step;
  step.kind = kind;
  normalizeText({&step, 1}, text);
  return text;
}

std::string encoded(uint32_t codePoint) {
  std::string text;
  appendCodePoint(codePoint, text);
  return text;
}

using Pieces = std::vector<std::string>;

class Collector final : public PieceSink {
public:
  Status take(std::string_view piece) override {
    pieces.emplace_back(piece);
    return {};
  }
  Pieces pieces;
};

Pieces cut(const PreTokenizerStep &step, std::string_view text) {
  Result<PreTokenizer> preTokenizer = PreTokenizer::make({step});
  REQUIRE_MESSAGE(preTokenizer.isOk(), preTokenizer.status().message());
  RegexScratch scratch;
  Collector collector;
  REQUIRE(preTokenizer->run(text, true, scratch, collector).isOk());
  return collector.pieces;
}

PreTokenizerStep splitOn(const std::string &pattern, SplitBehavior behavior, bool invert = false) {
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::kSplitText;
  step.pattern = pattern;
  step.behavior = behavior;
  step.invert = invert;
  return step;
}

} // namespace

TEST_CASE("UTF-8 is accepted exactly where the standard's table of sequences allows it") {
  for (uint32_t codePoint :
       {0x0U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xD7FFU, 0xE000U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    CAPTURE(codePoint);
    CHECK(isValidUtf8(encoded(codePoint)));
    CHECK(firstCodePoint(encoded(codePoint)).value == codePoint);
  }
  for (const char *broken : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                             "\xF5\x80\x80\x80", "\xE2\x82", "a\xC3"}) {
    CAPTURE(broken);
    CHECK(!isValidUtf8(broken));
  }
}

TEST_CASE("a truncated character is held back unless no more text follows") {
  std::string out;
  CHECK(appendLossyUtf8("a\xE2\x82", false, out) == 2);
  CHECK(out == "a");
  CHECK(appendLossyUtf8("b\xE2\x82", true, out) == 0);
  CHECK(out == "ab\xEF\xBF\xBD");
}

TEST_CASE("the byte alphabet is a bijection that keeps printable ASCII") {
  for (int byte = 0; byte < 256; ++byte) {
    auto value = static_cast<unsigned char>(byte);
    CHECK(alphabetToByte(byteToAlphabet(value)) == value);
  }
  CHECK(byteToAlphabet(' ') == 0x120);
  CHECK(byteToAlphabet('a') == 'a');
  CHECK(!alphabetToByte(' ').has_value());
  CHECK(!alphabetToByte(0x144).has_value());
}

TEST_CASE("the four normalization forms compose and decompose as Unicode defines") {
  using Kind = NormalizerStep::Kind;
  CHECK(normalized(Kind::kNfc, "cafe\u0301 \u212B") == "café \u00C5");
  CHECK(normalized(Kind::kNfd, "é") == "e\u0301");
  CHECK(normalized(Kind::kNfkc, "ﬁ Ａ") == "fi A");
  CHECK(normalized(Kind::kNfkd, "ﬁé") == "fie\u0301");
  CHECK(normalized(Kind::kNfc, "ﬁ") == "ﬁ");
}

TEST_CASE("combining marks are reordered after plain letters too") {
  // U+0323 (below, class 220) goes before U+0301 (above, class 230).
  CHECK(normalized(NormalizerStep::Kind::kNfd, "xq\u0301\u0323x") == "xq\u0323\u0301x");
}

TEST_CASE("characters newer than the reference package's tables stay unchanged") {
  using Kind = NormalizerStep::Kind;
  // U+0898 has a combining class since Unicode 14, U+32FF a decomposition since 12.1.
  CHECK(normalized(Kind::kNfd, "a\u0301\u0898\u0323") == "a\u0301\u0898\u0323");
  CHECK(normalized(Kind::kNfkc, "\u32FF") == "\u32FF");
  CHECK(normalized(Kind::kNfc, "\U00011935\U00011930") == "\U00011935\U00011930");
}

TEST_CASE("replacements that could grow a text without bounds are refused") {
  NormalizerStep doubling{NormalizerStep::Kind::kReplace, std::string("a"), std::string("aa"),
                          false, false};
  CHECK(checkNormalizers(std::vector<NormalizerStep>(12, doubling)).isOk());
  CHECK(!checkNormalizers(std::vector<NormalizerStep>(64, doubling)).isOk());
}

TEST_CASE("each split behaviour treats a row of matches as its name says") {
  std::string text = "a--b-";
  CHECK(cut(splitOn("-", SplitBehavior::kRemoved), text) == Pieces{"a", "b"});
  CHECK(cut(splitOn("-", SplitBehavior::kIsolated), text) == Pieces{"a", "-", "-", "b", "-"});
  CHECK(cut(splitOn("-", SplitBehavior::kMergedWithPrevious), text) == Pieces{"a-", "-", "b-"});
  CHECK(cut(splitOn("-", SplitBehavior::kMergedWithNext), text) == Pieces{"a", "-", "-b", "-"});
  CHECK(cut(splitOn("-", SplitBehavior::kContiguous), text) == Pieces{"a", "--", "b", "-"});
  CHECK(cut(splitOn("-", SplitBehavior::kRemoved, true), text) == Pieces{"-", "-", "-"});
}

TEST_CASE("GPT-2's pattern leaves one space of a run to the next word") {
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::kByteLevel;
  step.useRegex = true;
  CHECK(cut(step, "I'm   here 12!? ") == Pieces{"I", "'m", "ĠĠ", "Ġhere", "Ġ12", "!?", "Ġ"});
}

TEST_CASE("Metaspace prepends always, at the very front only, or never") {
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::kMetaspace;
  step.pattern = "▁";
  step.split = true;
  CHECK(cut(step, "a b") == Pieces{"▁a", "▁b"});
  CHECK(cut(step, " a") == Pieces{"▁a"});
  step.prependScheme = PrependScheme::kNever;
  CHECK(cut(step, "a b") == Pieces{"a", "▁b"});
  step.split = false;
  CHECK(cut(step, "a b") == Pieces{"a▁b"});
  step.prependScheme = PrependScheme::kFirst;
  Result<PreTokenizer> preTokenizer = PreTokenizer::make({step});
  REQUIRE(preTokenizer.isOk());
  RegexScratch scratch;
  Collector collector;
  CHECK(preTokenizer->run("a", true, scratch, collector).isOk());
  CHECK(preTokenizer->run("a", false, scratch, collector).isOk());
  CHECK(collector.pieces == Pieces{"▁a", "a"});
}

TEST_CASE("white space is Unicode's, without the Mongolian vowel separator") {
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::kWhitespaceSplit;
  CHECK(cut(step, "a\u3000b\u0085c\u180Ed") == Pieces{"a", "b", "c\u180Ed"});
}

TEST_CASE("digits are numbers of any script, the newest included") {
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::kDigits;
  CHECK(cut(step, "a12½٣\U00011DE0b") == Pieces{"a", "12½٣\U00011DE0", "b"});
  step.individual = true;
  CHECK(cut(step, "a1\u0662") == Pieces{"a", "1", "\u0662"});
}
