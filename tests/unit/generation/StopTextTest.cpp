#include "runtime/generation/StopText.h"

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

TEST_CASE("a stop text ends the text and is not shown, wherever the pieces are cut") {
  for (size_t piece = 1; piece <= 12; ++piece)
    CHECK(show({"\n\nQ:"}, "one\n\ntwo\n\nQ: three", piece) == Shown{"one\n\ntwo", true});
}

TEST_CASE("text without a stop text is shown whole") {
  for (size_t piece = 1; piece <= 5; ++piece) {
    CHECK(show({"abcd", "xyz"}, "abcabcxyabc", piece) == Shown{"abcabcxyabc", false});
    CHECK(show({}, "abc", piece) == Shown{"abc", false});
  }
}

TEST_CASE("what could be the start of a stop text is held back and nothing else is") {
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

TEST_CASE("the stop text that is complete first wins, the longest where several end together") {
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
