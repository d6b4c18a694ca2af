// The stages of text on its way to the model: UTF-8 and splitting; NormalizerTest.cpp has the one
// between.
#include "runtime/base/Utf8.h"
#include "runtime/text/tokenizer/ByteAlphabet.h"
#include "runtime/text/tokenizer/PieceSplitter.h"
#include "runtime/text/tokenizer/PreTokenizer.h"

#include <doctest/doctest.h>

using namespace moert;

namespace {

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
