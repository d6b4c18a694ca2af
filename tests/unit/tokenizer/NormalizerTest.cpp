// The normalizer list: Unicode's forms, replacements and SentencePiece's character maps. Expected
// texts are those of the PyPI package tokenizers 0.23.3.
#include "runtime/text/tokenizer/Normalizer.h"

#include <cstring>
#include <doctest/doctest.h>
#include <utility>

using namespace moert;

namespace {

std::string normalized(const NormalizerStep &step, std::string text) {
  Result<Normalizer> normalizer = Normalizer::make({step});
  REQUIRE_MESSAGE(normalizer.isOk(), normalizer.status().message());
  RegexScratch scratch;
  REQUIRE(normalizer->apply(text, scratch).isOk());
  return text;
}

std::string normalized(NormalizerStep::Kind kind, std::string text) {
  NormalizerStep step;
  step.kind = kind;
  return normalized(step, std::move(text));
}

NormalizerStep precompiled(std::string charsmap) {
  NormalizerStep step;
  step.kind = NormalizerStep::Kind::kPrecompiled;
  step.charsmap = std::move(charsmap);
  return step;
}

// a -> x, e U+0301 -> U+00E9, U+0301 q -> z, U+0007 -> nothing, U+65E5 -> nichi; made by charsmap()
// in tests/data/tokenizers/make.py. The trie's units that are not zero, by index.
std::string smallCharsmap() {
  constexpr std::pair<uint32_t, uint32_t> kUnits[] = {
      {0, 0x00000400},   {6, 0x00000507},   {7, 0x80000000},   {40, 0x80000003},  {41, 0x00000581},
      {60, 0x80000006},  {61, 0x00000571},  {77, 0x00000481},  {96, 0x00000561},  {97, 0x80000001},
      {100, 0x00000465}, {113, 0x00000497}, {169, 0x000004CC}, {205, 0x000004CC}, {212, 0x80000008},
      {213, 0x000005A5}, {231, 0x000004E6},
  };
  std::string bytes(4 + 1024, '\0');
  auto put = [&](size_t offset, uint32_t value) { std::memcpy(&bytes[offset], &value, 4); };
  put(0, 1024);
  for (auto [index, unit] : kUnits)
    put(4 + 4 * index, unit);
  constexpr std::string_view kTexts = {"\0"
                                       "x\0"
                                       "\u00E9\0"
                                       "z\0"
                                       "nichi\0",
                                       14};
  return bytes.append(kTexts);
}

constexpr std::pair<const char *, const char *> kMapped[] = {
    {"abc", "xbc"},
    {"e\u0301a", "\u00E9x"},
    {"a\u0301b", "xb"},
    {"a\u0301\u0301\u0301b", "x\u0301\u0301\u0301b"},
    {"\007b\007", "b"},
    {"\u65E5\u672C", "nichi\u672C"},
    {"a\u0897b", "xb"},
    {"\177\u0897a", "\177\u0897x"},
    {"\r\n\u0301q", "\r\n\u0301q"},
    {"a\u200Da", "xx"},
    {"e\u0301\u0301", "\u00E9"},
};

std::string refusal(const NormalizerStep &step) {
  Result<Normalizer> normalizer = Normalizer::make({step});
  return normalizer.isOk() ? "accepted" : normalizer.status().message();
}

void checkContains(const std::string &message, std::string_view part) {
  CHECK_MESSAGE(message.find(part) != std::string::npos, message);
}

} // namespace

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
  NormalizerStep doubling{
      NormalizerStep::Kind::kReplace, std::string("a"), std::string("aa"), false, false, ""};
  CHECK(Normalizer::make(std::vector<NormalizerStep>(12, doubling)).isOk());
  CHECK(!Normalizer::make(std::vector<NormalizerStep>(64, doubling)).isOk());
}

TEST_CASE("a replaced regular expression is replaced from left to right") {
  NormalizerStep step;
  step.kind = NormalizerStep::Kind::kReplaceRegex;
  step.pattern = std::string(" {2,}");
  step.content = std::string("_");
  CHECK(normalized(step, "a  b c    ") == "a_b c_");
  CHECK(normalized(step, "") == "");
  step.pattern = std::string("x*");
  checkContains(refusal(step), "normalizer: the regular expression x* is not supported: it can");
}

TEST_CASE("a character map replaces short clusters by their first key, others by character") {
  NormalizerStep step = precompiled(smallCharsmap());
  for (const auto &mapped : kMapped) {
    CAPTURE(mapped.first);
    CHECK(normalized(step, mapped.first) == mapped.second);
  }
}

TEST_CASE("a broken character map is refused with what it has and what it needs") {
  const std::string whole = smallCharsmap();
  CHECK(refusal(precompiled(whole)) == "accepted");
  checkContains(refusal(precompiled("")), "normalizer: found a character map of 0 bytes");
  checkContains(refusal(precompiled(whole.substr(0, 3))), "a character map of 3 bytes");
  checkContains(refusal(precompiled(whole.substr(0, 1000))),
                "of 1000 bytes with a trie of 1024, expected a multiple of 4 that it has room for");
  std::string odd = whole;
  odd[0] = 3;
  checkContains(refusal(precompiled(odd)), "with a trie of 1027, expected a multiple of 4");
  checkContains(refusal(precompiled(std::string(64, '\0'))), "with a trie of 0, expected");
  checkContains(refusal(precompiled(whole + "\xFF")), "broken UTF-8 in the replacements");
  checkContains(refusal(precompiled(whole + std::string(65, 'x'))), "found a replacement of 65");
}

TEST_CASE("a character map with any byte changed is refused or used within its bounds") {
  const std::string whole = smallCharsmap();
  for (size_t i = 0; i < whole.size(); ++i)
    for (int flip : {1, 0x80, 0xFF}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      NormalizerStep step = precompiled(changed);
      if (refusal(step) == "accepted")
        CHECK(normalized(step, "abe\u0301\u0007\u65E5\u0301q").size() < 1000);
    }
}
