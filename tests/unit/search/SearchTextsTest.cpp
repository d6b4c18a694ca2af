#include "compiler/search/SearchTexts.h"

#include "tests/unit/support/TemporaryDirectory.h"
#include "tests/unit/tokenizer/TestTokenizers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

using namespace moec;

using Ids = std::vector<int32_t>;

constexpr uint32_t kWindow = 32;

static Ids numbered(int32_t first, size_t tokens) {
  Ids ids(tokens);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

/// Windows of the tokens, in documents of so many windows.
static moert::TextWindows windowsOf(const Ids &tokens, size_t windowsOfDocument = 1) {
  std::vector<Ids> documents;
  for (size_t begin = 0; begin < tokens.size();) {
    const size_t end = std::min(begin + windowsOfDocument * kWindow, tokens.size());
    documents.emplace_back(tokens.begin() + ptrdiff_t(begin), tokens.begin() + ptrdiff_t(end));
    begin = end;
  }
  return moert::cutWindows(documents, {}, kWindow);
}

/// A text of windows that share no two tokens with each other or with any other text's: the tokens
/// are numbered from `first` on.
static SearchText textOf(std::string name, int32_t first, size_t tokens,
                         size_t windowsOfDocument = 1) {
  SearchText text;
  text.name = std::move(name);
  text.hash = uint64_t(first) + 1;
  text.bytes = tokens * 4;
  text.windows = windowsOf(numbered(first, tokens), windowsOfDocument);
  return text;
}

/// The text with windows of other tokens after its own.
static void append(SearchText &text, const Ids &tokens) {
  Ids all = text.windows.tokens;
  all.insert(all.end(), tokens.begin(), tokens.end());
  text.windows = windowsOf(all);
}

static TextAmounts amounts(uint32_t search = 20, uint32_t probe = 5, uint32_t setAside = 24) {
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
      auto offset = size_t(set.ids[t][begin] - texts[t].windows.tokens.front());
      REQUIRE(offset % kWindow == 0);
      CHECK(std::equal(set.ids[t].begin() + ptrdiff_t(begin),
                       set.ids[t].begin() + ptrdiff_t(begin + kWindow),
                       texts[t].windows.tokens.begin() + ptrdiff_t(offset)));
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
  CHECK(windows.acceptance.windows == 24);
  std::set<int32_t> all;
  for (const WindowSet *set : {&windows.probe, &windows.rest, &windows.acceptance}) {
    std::set<int32_t> firsts = firstTokens(*set, texts);
    all.insert(firsts.begin(), firsts.end());
    CHECK(firsts.lower_bound(10000) != firsts.end()); // Some of each text.
    CHECK(firsts.lower_bound(10000) != firsts.begin());
  }
  CHECK(all.size() == 44);
}

TEST_CASE("what is set aside is not searched where the text repeats it") {
  SearchText text = textOf("a", 0, 50 * kWindow);
  append(text, Ids(text.windows.tokens));
  const SearchWindows windows = chosen({text}, {});
  CHECK(windows.acceptance.windows == 24);
  CHECK(windows.searchWindows() == 20);
  std::set<int32_t> accepted(windows.acceptance.ids[0].begin(), windows.acceptance.ids[0].end());
  for (const WindowSet *set : {&windows.probe, &windows.rest})
    for (int32_t token : set->ids[0])
      CHECK_FALSE(accepted.contains(token));
}

TEST_CASE("no more than half of the windows are set aside") {
  SearchWindows windows =
      chosen({textOf("a", 0, 44 * kWindow)}, {}, {}, kWindow, amounts(30, 5, 24));
  CHECK(windows.acceptance.windows == 22);
  CHECK(windows.probe.windows + windows.rest.windows == 22);
}

TEST_CASE("texts of the acceptance's own are used whole, and none is set aside") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)},
                                acceptance = {textOf("b", 10000, 20 * kWindow + 31),
                                              textOf("c", 20000, 31),
                                              textOf("d", 30000, 2 * kWindow)};
  SearchWindows windows = chosen(texts, acceptance);
  CHECK_FALSE(windows.isSetAside);
  CHECK(windows.acceptance.windows == 22);
  CHECK(windows.acceptance.ids[1].empty());
  firstTokens(windows.acceptance, acceptance);
  CHECK(windows.probe.windows + windows.rest.windows == 20);
}

// Calibration's windows have another length and begin elsewhere: tokens 100 to 163 overlap the
// windows from 96 and 128 on, and the one from 160 on by 4 tokens only, which are too few to count.
TEST_CASE("windows that calibration has seen are left out, wherever its own began") {
  const std::vector<SearchText> texts = {textOf("a", 0, 23 * kWindow)},
                                acceptance = {textOf("b", 10000, 20 * kWindow)};
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
                                acceptance = {textOf("b", 10000, 20 * kWindow)};
  // Tokens 64 to 95 in two windows of 16 whose halves are swapped: no run of 16 is in the text.
  Ids calibrated(16);
  std::iota(calibrated.begin(), calibrated.begin() + 8, 88);
  std::iota(calibrated.begin() + 8, calibrated.end(), 64);
  for (int32_t first : {72, 300}) {
    const Ids half = numbered(first, 8);
    calibrated.insert(calibrated.end(), half.begin(), half.end());
  }
  CHECK(chosen(texts, acceptance, calibrated, 16).probe.windows == 5);
  CHECK(chosen(texts, acceptance, calibrated, 16, amounts(100)).rest.windows == 15);
}

TEST_CASE("the acceptance leaves out text that calibration or the search has seen") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)};
  // A file that holds some of the calibration text beside text of its own.
  std::vector<SearchText> acceptance = {textOf("b", 10000, 20 * kWindow)};
  append(acceptance[0], numbered(5, 3 * kWindow));
  SearchWindows windows = chosen(texts, acceptance, numbered(0, 2 * kWindow));
  CHECK(windows.acceptance.windows == 20);
  firstTokens(windows.acceptance, acceptance);
}

TEST_CASE("no more windows are accepted on than asked for, from all of the texts") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)},
                                acceptance = {textOf("b", 10000, 30 * kWindow),
                                              textOf("c", 20000, 10 * kWindow)};
  TextAmounts wanted = amounts();
  wanted.acceptanceWindows = 24;
  SearchWindows windows = chosen(texts, acceptance, {}, kWindow, wanted);
  CHECK(windows.acceptance.windows == 24);
  CHECK(windows.acceptance.ids[0].size() == 18 * kWindow);
  CHECK(windows.acceptance.ids[1].size() == 6 * kWindow);
  CHECK(windows.acceptance.indices[1].size() == 6);
}

TEST_CASE("the search may measure on calibration's own windows, the acceptance never") {
  const std::vector<SearchText> texts = {
      textOfCalibration("a", numbered(0, 20 * kWindow), kWindow)};
  std::vector<SearchText> acceptance = {textOf("b", 10000, 20 * kWindow)};
  append(acceptance[0], numbered(0, 2 * kWindow));
  SearchWindows windows = chosen(texts, acceptance, texts[0].windows.tokens, kWindow, amounts(10));
  CHECK(windows.probe.windows + windows.rest.windows == 10);
  CHECK(windows.acceptance.windows == 20);
}

/// How many windows each chosen unit has, text after text.
static std::vector<size_t> windowsOfUnits(const WindowSet &set) {
  std::vector<size_t> counts;
  for (const std::vector<uint32_t> &units : set.units)
    for (size_t i = 0; i < units.size(); ++i)
      if (i == 0 || units[i] != units[i - 1])
        counts.push_back(size_t(std::count(units.begin(), units.end(), units[i])));
  return counts;
}

TEST_CASE(
    "of the acceptance texts whole units are taken, evenly and within the windows asked for") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)},
                                acceptance = {textOf("b", 10000, 90 * kWindow, 3)};
  TextAmounts wanted = amounts();
  wanted.acceptanceWindows = 68;
  const WindowSet set = chosen(texts, acceptance, {}, kWindow, wanted).acceptance;
  CHECK(windowsOfUnits(set) == std::vector<size_t>(22, 3));
  CHECK(set.unitCount() == 22);
  CHECK(set.documentCount() == 22);
  CHECK(set.windows == 66);
  firstTokens(set, acceptance);
  // 22 of 30: no two units in a row are left out.
  CHECK(set.units[0].front() <= 1);
  CHECK(set.units[0].back() == 29);
  for (size_t i = 1; i < set.units[0].size(); ++i)
    CHECK(set.units[0][i] - set.units[0][i - 1] <= 2);
}

TEST_CASE("no fewer units are taken than have a bound, however many windows they have") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)},
                                acceptance = {textOf("b", 10000, 90 * kWindow, 3)};
  TextAmounts wanted = amounts();
  wanted.acceptanceWindows = 30;
  CHECK(windowsOfUnits(chosen(texts, acceptance, {}, kWindow, wanted).acceptance) ==
        std::vector<size_t>(20, 3));
}

TEST_CASE("units of unequal length keep to the windows asked for") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)};
  const std::vector<SearchText> acceptance = {textOf("b", 10000, 21 * kWindow),
                                              textOf("c", 20000, 90 * kWindow, 10)};
  TextAmounts wanted = amounts();
  wanted.acceptanceWindows = 90;
  const WindowSet set = chosen(texts, acceptance, {}, kWindow, wanted).acceptance;
  CHECK(set.windows <= 90);
  CHECK(set.unitCount() >= 20);
  for (size_t windows : windowsOfUnits(set))
    CHECK((windows == 1 || windows == 10));
}

TEST_CASE("a unit of which calibration or the search has read one window is not accepted on") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)};
  const std::vector<SearchText> acceptance = {textOf("b", 10000, 66 * kWindow, 3)};
  const Ids calibrated = numbered(10000 + 4 * kWindow, kWindow); // In the middle of the second.
  const WindowSet set = chosen(texts, acceptance, calibrated).acceptance;
  CHECK(windowsOfUnits(set) == std::vector<size_t>(21, 3));
  CHECK(set.units[0][3] == 2);
}

TEST_CASE("units are set aside whole, and only such as calibration has read nothing of") {
  const std::vector<SearchText> texts = {textOf("a", 0, 135 * kWindow, 3)};
  const Ids calibrated = numbered(kWindow, kWindow);
  const SearchWindows windows = chosen(texts, {}, calibrated, kWindow, amounts(200, 5, 64));
  CHECK(windowsOfUnits(windows.acceptance) == std::vector<size_t>(21, 3));
  CHECK(windows.acceptance.units[0].front() != 0);
  std::set<uint32_t> accepted(windows.acceptance.units[0].begin(),
                              windows.acceptance.units[0].end());
  for (const WindowSet *set : {&windows.probe, &windows.rest})
    for (uint32_t unit : set->units[0])
      CHECK_FALSE(accepted.contains(unit));
  CHECK(windows.probe.windows + windows.rest.windows == 134 - 63);
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

TEST_CASE("a copy of a unit is no unit of the acceptance, and units come with their documents") {
  const std::vector<SearchText> texts = {textOf("a", 0, 20 * kWindow)};
  SearchText copied = textOf("b", 10000, 30 * kWindow);
  const SearchWindows once = chosen(texts, {copied});
  CHECK(once.acceptance.unitCount() == 30);
  CHECK(once.acceptance.documentIds == copied.windows.documentIds);
  append(copied, numbered(10000, 25 * kWindow));
  const SearchWindows windows = chosen(texts, {copied});
  CHECK(windows.acceptance.unitCount() == 30);
  CHECK(windows.acceptance.documentIds == once.acceptance.documentIds);
  // Between two files as well, of which one has more.
  SearchText longer = textOf("c", 10000, 31 * kWindow);
  CHECK(chosen(texts, {textOf("b", 10000, 30 * kWindow), longer}).acceptance.unitCount() == 31);
}

TEST_CASE("too few windows for the search and too few units for the acceptance are refused") {
  auto says = [](const moert::Status &status, const char *text) {
    INFO(status.message());
    CHECK(status.message().find(text) != std::string::npos);
  };
  const SearchText search = textOf("a", 0, 10 * kWindow), few = textOf("a", 0, 10 * kWindow - 1);
  const SearchText units = textOf("b", 10000, 40 * kWindow, 2);
  CHECK(chosen({search}, {units}).acceptance.unitCount() == 20);
  says(refusal({few}, {units}), "the texts have 9 windows of 32 tokens for the search");
  // The search cannot use what calibration has seen.
  says(refusal({search}, {units}, numbered(0, kWindow)), "the texts have 9 windows");
  // 95 windows of 19 documents are fewer units than 20 documents of one window.
  const moert::Status status = refusal({search}, {textOf("b", 10000, 95 * kWindow, 5)});
  says(status, "--eval-text has 19 units (19 documents, 95 windows of 32 tokens)");
  says(status, "More documents help, not longer ones: a JSONL file with one document a line, or "
               "--document-separator");
  says(refusal({textOf("a", 0, 39 * kWindow)}, {}), "the calibration texts have 19 units");
  says(refusal({textOf("a", 0, 300 * kWindow, 10)}, {}), "the calibration texts have 15 units");
}

TEST_CASE("too little text is refused with the options that give more of it") {
  const auto refused = [](const std::vector<SearchText> &texts,
                          const std::vector<SearchText> &acceptance, const std::string &help,
                          const Ids &calibrated = {}) {
    const std::string message = refusal(texts, acceptance, calibrated).message();
    CHECK_MESSAGE(message.ends_with(help), message);
  };
  const SearchText few = textOf("a", 0, 9 * kWindow), units = textOf("b", 10000, 40 * kWindow);
  refused({few}, {units}, "expected at least 10: more in --calibration-text helps");
  refused({few}, {}, "or --eval-text in place of what is set aside, helps");
  SearchText profile = few, written = textOf("c", 0, 42 * kWindow), accepted = units;
  profile.isOfCalibration = true;
  refused({profile}, {units}, "--calibration-text, or a profile of more tokens, helps");
  // Calibration has read 32 of 42 documents and parts of 5 others: 32 and 5/4 * 10 * 10/5, twice.
  written.isSelfWritten = accepted.isSelfWritten = true;
  Ids read = numbered(0, 32 * kWindow);
  const SearchText parts = [&] {
    SearchText text = written;
    for (size_t w = 0; w < 5; ++w)
      std::copy_n(read.begin() + ptrdiff_t(w * kWindow), 20,
                  text.windows.tokens.begin() + ptrdiff_t((32 + w) * kWindow));
    return text;
  }();
  refused({parts}, {accepted}, "a larger --self-text helps, such as --self-text 114", read);
  refused({parts}, {units}, "a larger --self-text helps, such as --self-text 57", read);
  // Beyond 32 and 5/4 * 48, calibration and search get a fifth: 32 and 5/4 * 10 * 20/4, five times.
  SearchText read60 = textOf("d", 0, 52 * kWindow);
  read60.isSelfWritten = true;
  for (size_t w = 0; w < 16; ++w)
    std::copy_n(read.begin() + ptrdiff_t(w * kWindow), 20,
                read60.windows.tokens.begin() + ptrdiff_t((32 + w) * kWindow));
  refused({read60}, {accepted}, "a larger --self-text helps, such as --self-text 475", read);
  // 19 of 19 documents; 5/4 * 20, twice where half of them are for calibration.
  accepted.windows = windowsOf(numbered(10000, 19 * kWindow));
  written.isSelfWritten = false;
  refused({written}, {accepted}, "a larger --self-text helps, such as --self-text 25");
  written.isSelfWritten = true;
  refused({written}, {accepted}, "a larger --self-text helps, such as --self-text 50");
}

TEST_CASE("texts are read as documents, short ones packed after the separator token") {
  TemporaryDirectory directory;
  directory.write("a.jsonl", R"({"text": "c"})"
                             "\n"
                             R"({"text": "cb"})"
                             "\n"
                             R"({"text": "cbcbc"})"
                             "\n");
  directory.write("b.txt", "c\n---\ncb\n---\ncbcbc\n");
  nlohmann::json json = moert::smallTokenizer();
  json["added_tokens"] = {moert::addedToken(7, "<e>")};
  const moert::LoadedTokenizer loaded = moert::load(json);
  auto cutter = moert::WindowCutter::create(loaded.tokenizer, Ids{7}, 9, 4);
  REQUIRE(cutter.isOk());
  const std::vector<std::string> paths = {directory.path("a.jsonl"), directory.path("b.txt")};
  auto texts = readSearchTexts(paths, "---", *cutter);
  REQUIRE_MESSAGE(texts.isOk(), texts.status().message());
  CHECK((*texts)[0].name == "a.jsonl");
  CHECK((*texts)[0].windows.tokens == Ids{7, 2, 7, 2, 2, 1, 2, 1});
  CHECK((*texts)[0].windows.units == std::vector<uint32_t>{0, 1});
  CHECK((*texts)[1].windows.tokens == (*texts)[0].windows.tokens);
  directory.write("a.jsonl", "\n{}\n");
  CHECK(readSearchTexts(paths, "---", *cutter).status().message() ==
        moert::strCat("'", paths[0], "' line 2: found no key \"text\", expected one document a ",
                      R"(line as {"text": "..."})"));
}

TEST_CASE("more probes than windows of the search take them all") {
  SearchWindows windows = chosen({textOf("a", 0, 10 * kWindow)}, {textOf("b", 10000, 20 * kWindow)},
                                 {}, kWindow, amounts(96, 24));
  CHECK(windows.probe.windows == 10);
  CHECK(windows.rest.windows == 0);
}

TEST_CASE("items that calibration or the search has read parts of are found") {
  auto tokens = numbered;
  const Ids calibrated = tokens(0, 2 * kWindow);
  SearchWindows windows;
  windows.probe.ids = {tokens(1000, kWindow)};
  windows.rest.ids = {{}, tokens(2000, kWindow)};
  const std::vector<Ids> items = {
      tokens(8, 16),    // In a window of calibration...
      tokens(24, 16),   // ...and over the end of one.
      tokens(8, 15),    // Too short to count.
      tokens(1016, 40), // Partly in a window of probes...
      tokens(2000, 16), // ...and in one of the others.
      tokens(5000, 40), // In none.
  };
  CHECK(findSeenItems(items, calibrated, kWindow, windows, kWindow) ==
        std::vector<bool>{true, false, false, true, true, false});
}

TEST_CASE("a beginning shared by many items does not count, one shared by two items does") {
  auto asked = [](int32_t first) {
    Ids item = numbered(0, 20), rest = numbered(first, 20);
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
