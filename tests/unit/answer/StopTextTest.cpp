#include "runtime/text/answer/StopText.h"

#include "runtime/base/RandomStream.h"
#include "tests/unit/support/CountAllocations.h"

#include <doctest/doctest.h>

using namespace moert;

struct Shown {
  std::string text;
  bool stopped = false;
  bool operator==(const Shown &) const = default;
};

/// Feeds text in pieces of the given size and flushes.
static Shown show(const std::vector<std::string> &stops, std::string_view text, size_t piece) {
  auto matcher = StopText::create(stops);
  REQUIRE(matcher.isOk());
  Shown result;
  while (!text.empty() && !result.stopped) {
    size_t length = std::min(piece, text.size());
    result.stopped = matcher->feed(text.substr(0, length), result.text);
    text.remove_prefix(length);
  }
  matcher->flush(result.text);
  return result;
}

TEST_CASE("a stop text ends the text and is not shown, however the text is cut into pieces") {
  for (size_t piece = 1; piece <= 12; ++piece)
    CHECK(show({"\n\nQ:"}, "one\n\ntwo\n\nQ: three", piece) == Shown{"one\n\ntwo", true});
}

TEST_CASE("text without a stop text is shown whole") {
  for (size_t piece = 1; piece <= 5; ++piece) {
    CHECK(show({"abcd", "xyz"}, "abcabcxyabc", piece) == Shown{"abcabcxyabc", false});
    CHECK(show({}, "abc", piece) == Shown{"abc", false});
  }
}

TEST_CASE("only text that could be the start of a stop text is held back") {
  auto matcher = StopText::create({"end"});
  std::string shown;
  CHECK_FALSE(matcher->feed("the e", shown));
  CHECK(shown == "the ");
  CHECK_FALSE(matcher->feed("n", shown));
  CHECK(shown == "the ");
  CHECK_FALSE(matcher->feed("e", shown));
  CHECK(shown == "the en");
  matcher->flush(shown);
  CHECK(shown == "the ene");
}

TEST_CASE("a stop text that overlaps itself is found at its first completion") {
  for (size_t piece = 1; piece <= 4; ++piece)
    CHECK(show({"aab"}, "aaaab", piece) == Shown{"aa", true});
  CHECK(show({"abab"}, "abaabab", 1) == Shown{"aba", true});
}

TEST_CASE(
    "the stop text that is complete first ends the text, the longest if several end together") {
  for (size_t piece = 1; piece <= 5; ++piece) {
    CHECK(show({"abcd", "bc"}, "xabcd", piece) == Shown{"xa", true});
    CHECK(show({"c", "abc"}, "xabcd", piece) == Shown{"x", true});
  }
}

TEST_CASE("after a stop text nothing is shown") {
  auto matcher = StopText::create({"."});
  std::string shown;
  CHECK(matcher->feed("a.b", shown));
  CHECK(matcher->feed("c", shown));
  matcher->flush(shown);
  CHECK(shown == "a");
}

TEST_CASE("hidden text can belong to a stop text and is not shown") {
  auto matcher = StopText::create({"b<end>c", "<stop>"});
  std::string shown;
  CHECK_FALSE(matcher->feed("ab", shown));
  CHECK_FALSE(matcher->feedHidden("<end>", shown));
  CHECK(shown == "a");
  CHECK_FALSE(matcher->feed("d", shown));
  CHECK(shown == "abd");
  CHECK_FALSE(matcher->feed("b", shown));
  CHECK_FALSE(matcher->feedHidden("<end>", shown));
  CHECK(matcher->feed("c", shown));
  CHECK(shown == "abd");
}

TEST_CASE("a stop text is found in the shown text across hidden text") {
  auto matcher = StopText::create({"stop"});
  std::string shown;
  CHECK_FALSE(matcher->feed("a st", shown));
  CHECK_FALSE(matcher->feedHidden("<s>", shown));
  CHECK(shown == "a ");
  CHECK(matcher->feed("op", shown));
  CHECK(shown == "a ");
}

TEST_CASE("hidden text that completes a stop text keeps the text shown before it") {
  auto matcher = StopText::create({"<end>", "x<end>"});
  std::string shown;
  CHECK_FALSE(matcher->feed("abx", shown));
  CHECK(matcher->feedHidden("<end>", shown));
  CHECK(shown == "ab"); // The longest of the two.
  CHECK(matcher->isStopped());
}

TEST_CASE("no stop text extends across a flush") {
  auto matcher = StopText::create({"stop"});
  std::string shown;
  matcher->feed("st", shown);
  matcher->flush(shown);
  CHECK_FALSE(matcher->feed("op", shown));
  CHECK(shown == "stop");
}

/// Finds stop texts by comparing at each byte, as the definition says.
static Shown showByDefinition(const std::vector<std::string> &stops,
                              const std::vector<std::pair<std::string, bool>> &pieces) {
  std::string shown, all;
  std::vector<size_t> shownBefore; // By byte of the whole text.
  for (const auto &[piece, isShown] : pieces)
    for (char next : piece) {
      shownBefore.push_back(shown.size());
      all += next;
      if (isShown)
        shown += next;
      size_t begin = std::string::npos;
      for (const std::string &stop : stops) {
        if (all.ends_with(stop))
          begin = std::min(begin, shownBefore[all.size() - stop.size()]);
        if (isShown && shown.ends_with(stop))
          begin = std::min(begin, shown.size() - stop.size());
      }
      if (begin != std::string::npos)
        return {shown.substr(0, begin), true};
    }
  return {shown, false};
}

TEST_CASE("random pieces end where a comparison at every byte finds a stop text") {
  RandomStream random(26);
  size_t stopped = 0;
  constexpr size_t kRounds = 4000;
  for (size_t round = 0; round < kRounds; ++round) {
    auto word = [&](uint32_t longest) {
      std::string text(1 + random.nextBelow(longest), 'a');
      for (char &letter : text)
        letter = static_cast<char>('a' + random.nextBelow(2));
      return text;
    };
    const std::vector<std::string> stops = {word(7), word(9)};
    std::vector<std::pair<std::string, bool>> pieces;
    for (int i = 0; i < 8; ++i)
      pieces.emplace_back(word(4), random.nextBelow(4) > 0);
    auto matcher = StopText::create(stops);
    Shown found;
    for (const auto &[piece, isShown] : pieces)
      found.stopped =
          isShown ? matcher->feed(piece, found.text) : matcher->feedHidden(piece, found.text);
    matcher->flush(found.text);
    CAPTURE(round);
    CHECK(found == showByDefinition(stops, pieces));
    stopped += found.stopped;
  }
  CHECK(stopped > kRounds / 4);
  CHECK(stopped < kRounds);
}

TEST_CASE("matching allocates nothing once the shown text has room") {
  auto matcher = StopText::create({"a stop text that is longer than a short string", "no"});
  std::string shown;
  shown.reserve(1000);
  const uint64_t before = allocationsSoFar();
  for (int i = 0; i < 20; ++i)
    matcher->feed("a stop text that is never complete ", shown);
  const uint64_t after = allocationsSoFar();
  CHECK(after == before);
  CHECK(shown.size() > 600);
}

TEST_CASE("an empty stop text is refused") {
  CHECK(StopText::create({"a", ""}).status().code() == StatusCode::kInvalidInput);
}
