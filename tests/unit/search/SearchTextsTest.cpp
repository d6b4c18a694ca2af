#include "compiler/search/SearchTexts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

using namespace moec;

using Ids = std::vector<int32_t>;

constexpr uint32_t kWindow = 32;

/// A text of windows that share no two tokens with each other or with any other text's: the tokens
/// are numbered from `first` on.
static SearchText textOf(std::string name, int32_t first, size_t tokens) {
  SearchText text;
  text.name = std::move(name);
  text.hash = uint64_t(first) + 1;
  text.bytes = tokens * 4;
  text.tokens.resize(tokens);
  std::iota(text.tokens.begin(), text.tokens.end(), first);
  return text;
}

static TextAmounts amounts(uint32_t search = 20, uint32_t probe = 5, uint32_t setAside = 12) {
  return {kWindow, search, probe, setAside, 256};
}

static SearchWindows chosen(const std::vector<SearchText> &texts,
                            const std::vector<SearchText> &acceptance, const Ids &calibrated = {},
                            uint32_t calibratedWindow = kWindow,
                            const TextAmounts &wanted = amounts()) {
  auto windows = chooseWindows(texts, acceptance, calibrated, calibratedWindow, wanted);
  REQUIRE_MESSAGE(windows.isOk(), windows.status().message());
  return std::move(windows).value();
}

static moert::Status refusal(const std::vector<SearchText> &texts,
                             const std::vector<SearchText> &acceptance,
                             const Ids &calibrated = {}) {
  auto windows = chooseWindows(texts, acceptance, calibrated, kWindow, amounts());
  REQUIRE(windows.status().code() == moert::StatusCode::kInvalidInput);
  return windows.status();
}

/// Checks that a set is whole windows of its texts, and gives the windows' first tokens.
static std::set<int32_t> firstTokens(const WindowSet &set, const std::vector<SearchText> &texts) {
  std::set<int32_t> firsts;
  REQUIRE(set.ids.size() == texts.size());
  for (size_t t = 0; t < texts.size(); ++t) {
    REQUIRE(set.ids[t].size() % kWindow == 0);
    for (size_t begin = 0; begin < set.ids[t].size(); begin += kWindow) {
      auto offset = size_t(set.ids[t][begin] - texts[t].tokens.front());
      REQUIRE(offset % kWindow == 0);
      CHECK(std::equal(set.ids[t].begin() + ptrdiff_t(begin),
                       set.ids[t].begin() + ptrdiff_t(begin + kWindow),
                       texts[t].tokens.begin() + ptrdiff_t(offset)));
      firsts.insert(set.ids[t][begin]);
    }
  }
  CHECK(firsts.size() == set.windows);
  return firsts;
}

TEST_CASE("where the loss is accepted on items, all windows may serve the search") {
  const std::vector<SearchText> texts = {textOf("a", 0, 12 * kWindow)};
  TextAmounts onItems = amounts();
  onItems.isAcceptedOnItems = true;
  SearchText items = textOf("items", 10000, 0);
  SearchWindows windows = chosen(texts, {items}, {}, kWindow, onItems);
  CHECK_FALSE(windows.isSetAside);
  CHECK(windows.acceptance.windows == 0);
  CHECK(windows.probe.windows + windows.rest.windows == 12);
  CHECK_FALSE(refusal(texts, {items}).isOk()); // As windows they are none.
}

TEST_CASE(
    "items in a text that calibration has read, and too few windows beside them, are refused") {
  TextAmounts onItems = amounts();
  onItems.isAcceptedOnItems = true;
  const std::vector<SearchText> texts = {textOf("a", 0, 12 * kWindow)};
  auto same = chooseWindows(texts, texts, {}, kWindow, onItems);
  CHECK(same.status().message().find("a is the calibration text a") != std::string::npos);
  const std::vector<SearchText> few = {textOf("a", 0, 9 * kWindow)};
  auto windows = chooseWindows(few, {}, {}, kWindow, onItems);
  CHECK(windows.status().message().find("9 windows of 32 tokens for the search") !=
        std::string::npos);
}

TEST_CASE("windows for probes, for the rest of the search and set aside have nothing in common") {
  const std::vector<SearchText> texts = {textOf("a", 0, 25 * kWindow + 7),
                                         textOf("b", 10000, 25 * kWindow)};
  SearchWindows windows = chosen(texts, {});
  CHECK(windows.isSetAside);
  CHECK(windows.probe.windows == 5);
  CHECK(windows.rest.windows == 15);
  CHECK(windows.acceptance.windows == 12);
  std::set<int32_t> all;
  for (const WindowSet *set : {&windows.probe, &windows.rest, &windows.acceptance}) {
    std::set<int32_t> firsts = firstTokens(*set, texts);
    all.insert(firsts.begin(), firsts.end());
    CHECK(firsts.lower_bound(10000) != firsts.end()); // Some of each text.
    CHECK(firsts.lower_bound(10000) != firsts.begin());
  }
  CHECK(all.size() == 32);
}

TEST_CASE("what is set aside is not searched where the text repeats it") {
  SearchText text = textOf("a", 0, 25 * kWindow);
  const Ids once = text.tokens;
  text.tokens.insert(text.tokens.end(), once.begin(), once.end());
  const SearchWindows windows = chosen({text}, {});
  CHECK(windows.acceptance.windows == 12);
  std::set<int32_t> accepted(windows.acceptance.ids[0].begin(), windows.acceptance.ids[0].end());
  for (const WindowSet *set : {&windows.probe, &windows.rest})
    for (int32_t token : set->ids[0])
      CHECK_FALSE(accepted.contains(token));
}

TEST_CASE("no more than half of the windows are set aside") {
  SearchWindows windows = chosen({textOf("a", 0, 22 * kWindow)}, {});
  CHECK(windows.acceptance.windows == 11);
  CHECK(windows.probe.windows + windows.rest.windows == 11);
}

TEST_CASE("texts of the acceptance's own are used whole, and none is set aside") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)},
                                acceptance = {textOf("b", 10000, 10 * kWindow + 31),
                                              textOf("c", 20000, 31),
                                              textOf("d", 30000, 2 * kWindow)};
  SearchWindows windows = chosen(texts, acceptance);
  CHECK_FALSE(windows.isSetAside);
  CHECK(windows.acceptance.windows == 12);
  CHECK(windows.acceptance.ids[1].empty());
  firstTokens(windows.acceptance, acceptance);
  CHECK(windows.probe.windows + windows.rest.windows == 20);
}

// Calibration's windows are of another length and begin elsewhere: tokens 100 to 163 are the
// windows from 96 and 128 on, and that from 160 on by 4 tokens only, which are too few to tell.
TEST_CASE("windows that calibration has seen are left out, wherever its own began") {
  const std::vector<SearchText> texts = {textOf("a", 0, 23 * kWindow)},
                                acceptance = {textOf("b", 10000, 10 * kWindow)};
  Ids calibrated(64);
  std::iota(calibrated.begin(), calibrated.end(), 100);
  SearchWindows windows = chosen(texts, acceptance, calibrated, 64, amounts(100, 5));
  std::set<int32_t> used = firstTokens(windows.rest, texts);
  used.merge(firstTokens(windows.probe, texts));
  CHECK(used.size() == 21);
  CHECK(used.count(64) == 1);
  CHECK(used.count(96) == 0);
  CHECK(used.count(128) == 0);
  CHECK(used.count(160) == 1);
}

TEST_CASE("a run of tokens across two windows of calibration was not seen") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)},
                                acceptance = {textOf("b", 10000, 10 * kWindow)};
  // Tokens 64 to 95 in two windows of 16 whose halves are swapped: no run of 16 is in the text.
  Ids calibrated(16);
  std::iota(calibrated.begin(), calibrated.begin() + 8, 88);
  std::iota(calibrated.begin() + 8, calibrated.end(), 64);
  calibrated.insert(calibrated.end(), texts[0].tokens.begin() + 72, texts[0].tokens.begin() + 80);
  calibrated.insert(calibrated.end(), texts[0].tokens.begin() + 300, texts[0].tokens.begin() + 308);
  CHECK(chosen(texts, acceptance, calibrated, 16).probe.windows == 5);
  CHECK(chosen(texts, acceptance, calibrated, 16, amounts(100)).rest.windows == 15);
}

TEST_CASE("the acceptance leaves out what calibration or the search has seen") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)};
  // A file that holds some of the calibration text beside text of its own.
  std::vector<SearchText> acceptance = {textOf("b", 10000, 10 * kWindow)};
  SearchText &longer = acceptance[0];
  longer.tokens.insert(longer.tokens.end(), texts[0].tokens.begin() + 5,
                       texts[0].tokens.begin() + 5 + 3 * kWindow);
  const Ids calibrated(texts[0].tokens.begin(), texts[0].tokens.begin() + 2 * kWindow);
  SearchWindows windows = chosen(texts, acceptance, calibrated);
  CHECK(windows.acceptance.windows == 10);
  firstTokens(windows.acceptance, acceptance);
}

TEST_CASE("no more windows are accepted on than asked for, from all of the texts") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)},
                                acceptance = {textOf("b", 10000, 30 * kWindow),
                                              textOf("c", 20000, 10 * kWindow)};
  TextAmounts wanted = amounts();
  wanted.acceptanceWindows = 12;
  SearchWindows windows = chosen(texts, acceptance, {}, kWindow, wanted);
  CHECK(windows.acceptance.windows == 12);
  CHECK(windows.acceptance.ids[0].size() == 9 * kWindow);
  CHECK(windows.acceptance.ids[1].size() == 3 * kWindow);
  CHECK(windows.acceptance.indices[1].size() == 3);
}

TEST_CASE("the search may measure on calibration's own windows, the acceptance never") {
  std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)};
  texts[0].isOfCalibration = true;
  std::vector<SearchText> acceptance = {textOf("b", 10000, 10 * kWindow)};
  acceptance[0].tokens.insert(acceptance[0].tokens.end(), texts[0].tokens.begin(),
                              texts[0].tokens.begin() + 2 * kWindow);
  SearchWindows windows = chosen(texts, acceptance, texts[0].tokens, kWindow, amounts(10));
  CHECK(windows.probe.windows + windows.rest.windows == 10);
  CHECK(windows.acceptance.windows == 10);
}

TEST_CASE("an acceptance text with the content of a calibration text is refused, naming both") {
  const std::vector<SearchText> texts = {textOf("a", 0, 40 * kWindow),
                                         textOf("b", 10000, 40 * kWindow)};
  std::vector<SearchText> acceptance = {textOf("c", 20000, 40 * kWindow), texts[1]};
  acceptance[1].name = std::string("copy");
  const std::string message = refusal(texts, acceptance).message();
  CHECK(message.find("copy") != std::string::npos);
  CHECK(message.find("text b") != std::string::npos);
}

TEST_CASE("the same text twice is refused, under whatever name") {
  const std::vector<SearchText> texts = {textOf("a", 0, 64), textOf("b", 1000, 64),
                                         textOf("c", 0, 64)};
  const std::vector<std::string> paths = {"x/a", "x/b", "y/c"};
  CHECK(checkDistinct(std::span(texts).first(2), paths).isOk());
  moert::Status status = checkDistinct(texts, paths);
  CHECK(status.code() == moert::StatusCode::kInvalidInput);
  CHECK(status.message().find("y/c") != std::string::npos);
  CHECK(status.message().find("x/a") != std::string::npos);
}

TEST_CASE("too few windows for the search or the acceptance are refused with both numbers") {
  const std::vector<SearchText> enough = {textOf("a", 0, 10 * kWindow)},
                                few = {textOf("b", 10000, 10 * kWindow - 1)};
  CHECK(chosen(enough, {textOf("c", 20000, 10 * kWindow)}).acceptance.windows == 10);
  CHECK(refusal(few, enough).message().find("9 windows") != std::string::npos);
  CHECK(refusal(enough, few).message().find("9 for the acceptance") != std::string::npos);
  CHECK(refusal({textOf("a", 0, 19 * kWindow)}, {}).message().find("9 for the acceptance") !=
        std::string::npos);
  // What calibration has seen is no longer there for the search.
  const Ids seen(enough[0].tokens.begin(), enough[0].tokens.begin() + kWindow);
  CHECK(refusal(enough, {textOf("c", 20000, 10 * kWindow)}, seen).message().find("9 windows") !=
        std::string::npos);
}

TEST_CASE("more probes than windows of the search take them all") {
  SearchWindows windows = chosen({textOf("a", 0, 10 * kWindow)}, {textOf("b", 10000, 10 * kWindow)},
                                 {}, kWindow, amounts(96, 24));
  CHECK(windows.probe.windows == 10);
  CHECK(windows.rest.windows == 0);
}

TEST_CASE("items that calibration or the search has read parts of are found") {
  auto tokens = [](int32_t first, size_t count) { return textOf("", first, count).tokens; };
  const Ids calibrated = tokens(0, 2 * kWindow);
  SearchWindows windows;
  windows.probe.ids = {tokens(1000, kWindow)};
  windows.rest.ids = {{}, tokens(2000, kWindow)};
  const std::vector<Ids> items = {
      tokens(8, 16),    // In a window of calibration...
      tokens(24, 16),   // ...and over the end of one.
      tokens(8, 15),    // Too short to tell.
      tokens(1016, 40), // Partly in a window of probes...
      tokens(2000, 16), // ...and in one of the others.
      tokens(5000, 40), // In none.
  };
  CHECK(findSeenItems(items, calibrated, kWindow, windows, kWindow) ==
        std::vector<bool>{true, false, false, true, true, false});
}

TEST_CASE("what many items begin with is no part of them, what two have in common is") {
  auto asked = [](int32_t first) {
    Ids item = textOf("", 0, 20).tokens, rest = textOf("", first, 20).tokens;
    item.insert(item.end(), rest.begin(), rest.end());
    return item;
  };
  Ids calibrated = asked(100);
  calibrated.resize(kWindow + 8);
  const std::vector<Ids> many = {asked(100), asked(200), asked(300), asked(100)};
  CHECK(findSeenItems(many, calibrated, kWindow + 8, {}, kWindow) ==
        std::vector<bool>{true, false, false, true});
  const std::vector<Ids> two = {asked(200), asked(300)};
  CHECK(findSeenItems(two, calibrated, kWindow + 8, {}, kWindow) == std::vector<bool>{true, true});
}
