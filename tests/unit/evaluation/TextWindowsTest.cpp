#include "runtime/evaluation/TextWindows.h"

#include "tests/unit/tokenizer/TestTokenizers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace moert;

using Ids = std::vector<int32_t>;

/// A document whose tokens are numbered from `first` on.
static Ids documentOf(int32_t first, size_t tokens) {
  Ids ids(tokens);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

TEST_CASE("a document alone gives whole windows from its beginning, all of one unit") {
  const Ids text = documentOf(100, 35);
  const TextWindows windows = cutWindows(std::vector<Ids>{text}, 0, 10);
  CHECK(windows.tokens == Ids(text.begin(), text.begin() + 30));
  CHECK(windows.units == std::vector<uint32_t>{0, 0, 0});
  CHECK(windows.documents == std::vector<uint32_t>{1});
  CHECK(windows.documentsRead == 1);
  CHECK(windows.tokensRead == 35);
  CHECK(windows.window(1).front() == 110);
}

TEST_CASE("short documents are packed, each after the bare separator token") {
  const std::vector<Ids> documents = {documentOf(100, 3), documentOf(200, 2), documentOf(300, 9),
                                      documentOf(400, 3)};
  const TextWindows windows = cutWindows(documents, 7, 10);
  // The third document is cut off where the window ends; the fourth fills no window.
  CHECK(windows.tokens == Ids{7, 100, 101, 102, 7, 200, 201, 7, 300, 301});
  CHECK(windows.units == std::vector<uint32_t>{0});
  CHECK(windows.documents == std::vector<uint32_t>{3});
  CHECK(windows.documentsRead == 4);
  CHECK(windows.documentsUsed() == 3);
  CHECK(windows.tokensRead == 4 + 3 + 10 + 4);
}

TEST_CASE("a document of which no token fits begins the next window") {
  const std::vector<Ids> documents = {documentOf(100, 8), documentOf(200, 9)};
  const TextWindows windows = cutWindows(documents, 7, 10);
  CHECK(windows.tokens == Ids{7, 100, 101, 102, 103, 104, 105, 106, 107, 7,
                              7, 200, 201, 202, 203, 204, 205, 206, 207, 208});
  CHECK(windows.documents == std::vector<uint32_t>{1, 1});
}

TEST_CASE("without a separator token documents follow each other") {
  const std::vector<Ids> documents = {documentOf(100, 6), documentOf(200, 6)};
  CHECK(cutWindows(documents, {}, 10).tokens ==
        Ids{100, 101, 102, 103, 104, 105, 200, 201, 202, 203});
}

TEST_CASE("a document's windows stay together, and packing goes on across it") {
  const std::vector<Ids> documents = {documentOf(100, 4), documentOf(200, 25), documentOf(300, 4)};
  const TextWindows windows = cutWindows(documents, 7, 10);
  CHECK(windows.units == std::vector<uint32_t>{0, 0, 1});
  CHECK(windows.documents == std::vector<uint32_t>{1, 2});
  std::vector<DocumentId> ids; // Unit after unit.
  for (size_t document : {1, 0, 2})
    ids.push_back(documentIdOf({.text = {}, .ids = documents[document]}));
  CHECK(windows.documentIds == ids);
  CHECK(windows.window(0).front() == 200); // No separator before a document of whole windows.
  CHECK(windows.window(2)[5] == 7);
}

TEST_CASE("no document is in two units, whatever its length") {
  std::vector<Ids> documents;
  for (int32_t i = 0; i < 400; ++i)
    documents.push_back(documentOf(1000 * (i + 1), size_t(i * 7) % 41));
  const TextWindows windows = cutWindows(documents, 7, 16);
  std::map<int32_t, std::set<uint32_t>> unitsOf; // By document.
  std::vector<std::set<int32_t>> documentsOf(windows.documents.size());
  for (uint64_t w = 0; w < windows.windows(); ++w)
    for (int32_t token : windows.window(w))
      if (token != 7) {
        unitsOf[token / 1000].insert(windows.units[w]);
        documentsOf[windows.units[w]].insert(token / 1000);
      }
  for (const auto &[document, units] : unitsOf)
    CHECK(units.size() == 1);
  for (size_t unit = 0; unit < documentsOf.size(); ++unit)
    CHECK(windows.documents[unit] >= documentsOf[unit].size());
  CHECK(std::is_sorted(windows.units.begin(), windows.units.end()));
  CHECK(windows.units.back() + 1 == windows.documents.size());
}

static nlohmann::json withBeginToken() {
  nlohmann::json json = smallTokenizer();
  json["added_tokens"] = {addedToken(7, "<s>"), addedToken(8, "<e>")};
  json["post_processor"] = nlohmann::json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [7], "tokens": ["<s>"]}}})");
  return json;
}

static TextWindows cutTexts(const LoadedTokenizer &loaded, const Ids &endTokens,
                            const std::vector<std::string> &texts) {
  auto cutter = WindowCutter::create(loaded.tokenizer, endTokens, 9, 4);
  REQUIRE(cutter.isOk());
  std::vector<TextDocument> documents;
  for (const std::string &text : texts)
    documents.push_back({.text = text, .ids = {}});
  auto windows = cutter->cut(documents);
  REQUIRE(windows.isOk());
  return std::move(windows).value();
}

static Ids tokensOf(const LoadedTokenizer &loaded, const Ids &endTokens,
                    const TextDocument &document) {
  auto cutter = WindowCutter::create(loaded.tokenizer, endTokens, 9, 4);
  REQUIRE(cutter.isOk());
  auto ids = cutter->tokensOf(document);
  REQUIRE_MESSAGE(ids.isOk(), ids.status().message());
  return std::move(ids).value();
}

TEST_CASE("the separator is the first end token, or what the tokenizer itself begins texts with") {
  nlohmann::json json = smallTokenizer();
  json["added_tokens"] = {addedToken(7, "<e>"), addedToken(8, "<f>")};
  CHECK(cutTexts(load(json), {7, 8}, {"cbcb", "c"}).tokens == Ids{2, 1, 2, 1});
  CHECK(cutTexts(load(json), {7, 8}, {"c", "cb"}).tokens == Ids{7, 2, 7, 2});
  CHECK(cutTexts(load(json), {}, {"c", "cb", "b"}).tokens == Ids{2, 2, 1, 1});
  CHECK(cutTexts(load(withBeginToken()), {8}, {"c", "cb"}).tokens == Ids{7, 2, 7, 2});
  CHECK(cutTexts(load(withBeginToken()), {8}, {"cbc"}).tokens == Ids{7, 2, 1, 2});
}

TEST_CASE("a document's own ids are used after what the tokenizer adds") {
  const LoadedTokenizer plain = load(smallTokenizer()), begins = load(withBeginToken());
  // Tokenizing would give 4.
  const TextDocument document = {.text = "abc", .ids = {0, 1, 2}, .line = 1};
  CHECK(tokensOf(plain, {7}, document) == Ids{0, 1, 2});
  CHECK(tokensOf(begins, {7}, document) == Ids{7, 0, 1, 2});
  // The model may have ids that the tokenizer has no token for.
  CHECK(tokensOf(plain, {7}, {.text = "a", .ids = {8, 0}, .line = 1}) == Ids{8, 0});
}

TEST_CASE("special tokens are part of a document's ids and of its text") {
  const LoadedTokenizer begins = load(withBeginToken());
  CHECK(tokensOf(begins, {}, {.text = "ab<e>a", .ids = {3, 8, 0}, .line = 1}) == Ids{7, 3, 8, 0});
}

TEST_CASE("ids that are not in the vocabulary or not of the text are refused by line") {
  const LoadedTokenizer loaded = load(smallTokenizer());
  auto cutter = WindowCutter::create(loaded.tokenizer, {}, 9, 4);
  REQUIRE(cutter.isOk());
  auto refusal = [&](Ids ids) {
    const std::vector<TextDocument> documents = {{.text = "a", .ids = {}},
                                                 {.text = "abc", .ids = ids, .line = 12}};
    auto windows = cutter->cut(documents);
    CHECK(windows.status().code() == StatusCode::kInvalidInput);
    return windows.status().message();
  };
  CHECK(refusal({0, 1, 9}).starts_with("line 12: found the id 9 in \"ids\", expected those of the "
                                       "model: 0 to 8"));
  CHECK(refusal({0, 1}).starts_with("line 12: found \"ids\" of another text"));
  CHECK(refusal({4, 0}).starts_with("line 12: found \"ids\" of another text"));
}
