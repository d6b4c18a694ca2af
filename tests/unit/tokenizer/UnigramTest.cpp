// Unigram models: the best path, unknown characters, byte fallback, and how scores are read.
#include "tests/unit/tokenizer/TestTokenizers.h"

#include "compiler/import/tokenizer/TokenizerJsonUnigram.h"

#include <cmath>
#include <functional>

using namespace moert;

namespace {

// A Unigram tokenizer of a few letters that a test can change before it is read.
nlohmann::json smallUnigram() {
  return nlohmann::json::parse(R"({
    "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
    "post_processor": null, "decoder": {"type": "Fuse"},
    "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
              "vocab": [["<unk>", 0.0], ["a", -2.0], ["b", -2.5], ["ab", -4.0], ["abc", -9.0],
                        ["c", -4.0], ["bc", -7.5], ["é", -3.0]]}})");
}

std::string refusalWith(const std::string &pointer, const std::string &value) {
  nlohmann::json json = smallUnigram();
  json[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
  Result<TokenizerModel> model = parseTokenizerJson(json.dump(), "dir/tokenizer.json");
  return model.isOk() ? "accepted" : model.status().message();
}

struct BrokenPlace {
  const char *pointer;
  const char *value;
  const char *expected;
};

const BrokenPlace kBrokenPlaces[] = {
    {"/model/vocab", R"({"a": 0})", "model.vocab: found an object, expected an array"},
    {"/model/vocab", "[]", "model.vocab: found no tokens, expected at least one"},
    {"/model/vocab/1", "7", "model.vocab[1]: found 7, expected an array"},
    {"/model/vocab/1", R"(["a"])", "model.vocab[1]: found an array, expected a token and its"},
    {"/model/vocab/1", R"([1, -2.0])", "model.vocab[1]: found an array, expected a token and its"},
    {"/model/vocab/1", R"(["a", "-2"])",
     "model.vocab[1]: found an array, expected a token and its"},
    {"/model/vocab/1", R"(["", -2.0])", "model.vocab[1]: found an empty token"},
    {"/model/vocab/1", R"(["ab", -2.0])", "model.vocab[3]: found 'ab' twice"},
    {"/model/unk_id", "8", "model.unk_id: found 8, expected a whole number from 0 to 7"},
    {"/model/unk_id", "-1", "model.unk_id: found -1, expected a whole number from 0 to 7"},
    {"/model/byte_fallback", "1", "model.byte_fallback: found 1, expected true or false"},
};

// The tables of changed models are refused with these messages.
std::string tableRefusal(const std::function<void(TokenizerModel &)> &change) {
  Result<TokenizerModel> model = parseTokenizerJson(smallUnigram().dump(), "x");
  REQUIRE(model.isOk());
  change(*model);
  std::vector<std::byte> table = writeTokenizerTable(*model);
  Result<Tokenizer> tokenizer = Tokenizer::load(table);
  return tokenizer.isOk() ? "accepted" : tokenizer.status().message();
}

} // namespace

TEST_CASE("the tokens with the largest sum of scores are chosen, the longer ones in a tie") {
  LoadedTokenizer loaded = load(smallUnigram());
  CHECK(loaded.encode("ab") == Ids{3});     // -4 is above -2 - 2.5.
  CHECK(loaded.encode("abc") == Ids{3, 5}); // -4 - 4 is above -9 and -2 - 7.5.
  nlohmann::json tie = smallUnigram();
  tie["model"]["vocab"][4][1] = -8.0;
  CHECK(load(tie).encode("abc") == Ids{4}); // -8 = -4 - 4; the token that starts first stays.
}

TEST_CASE("neighbouring unknown characters become one unknown token or all of their bytes") {
  nlohmann::json json = smallUnigram();
  CHECK(load(json).encode("a日本b") == Ids{1, 0, 2});
  CHECK(load(json).encode("<unk>日") == Ids{0});
  json["model"]["byte_fallback"] = true;
  CHECK(load(json).encode("aèb") == Ids{1, 0, 2}); // Its bytes have no tokens.
  for (const char *token : {"<0xC3>", "<0xA8>"})
    json["model"]["vocab"].push_back({token, 0.0});
  CHECK(load(json).encode("aèb") == Ids{1, 8, 9, 2});
  CHECK(load(json).encode("aèzb") == Ids{1, 0, 2}); // z has none, and both are one span.
}

TEST_CASE("without an unknown token a text with an unknown character is refused") {
  nlohmann::json json = smallUnigram();
  json["model"]["unk_id"] = nullptr;
  CHECK(load(json).encode("ab") == Ids{3});
  Result<Ids> refused = load(json).tokenizer.encode("a日b", true);
  REQUIRE(!refused.isOk());
  CHECK(refused.status().message().find("found '日', which is not in the vocabulary") !=
        std::string::npos);
}

TEST_CASE("scores are read as the reference package reads them, with its rounding") {
  CHECK(asReferenceReads(0) == 0);
  CHECK(asReferenceReads(-3) == -3);
  CHECK(asReferenceReads(-2.5e-7) == -2.5e-7);
  // From a vocabulary that tokenizers 0.23.3 trained, wrote, read and wrote again.
  CHECK(asReferenceReads(-3.561599262753365) == -3.561599262753365);
  CHECK(asReferenceReads(-6.9419444840833044) == -6.941944484083304);
  CHECK(asReferenceReads(-7.2286494227301095) == -7.228649422730109);
  CHECK(asReferenceReads(-7.3305090823448165) == -7.330509082344816);
  CHECK(std::isfinite(asReferenceReads(-5e-324)));
  CHECK(asReferenceReads(-1e300) == doctest::Approx(-1e300));
}

TEST_CASE("a broken Unigram model is refused with file, place, found and expected") {
  CHECK(refusalWith("/model/unk_id", "0") == "accepted");
  for (const BrokenPlace &place : kBrokenPlaces) {
    CAPTURE(place.value);
    std::string message = refusalWith(place.pointer, place.value);
    CHECK_MESSAGE(message.starts_with("dir/tokenizer.json: "), message);
    CHECK_MESSAGE(message.find(place.expected) != std::string::npos, message);
  }
}

TEST_CASE("a table of a Unigram model is version 2 and gives the model back") {
  Result<TokenizerModel> model = parseTokenizerJson(smallUnigram().dump(), "x");
  REQUIRE(model.isOk());
  std::vector<std::byte> bytes = writeTokenizerTable(*model);
  Result<TokenizerTable> table = readTokenizerTable(bytes);
  REQUIRE_MESSAGE(table.isOk(), table.status().message());
  CHECK(table->pipeline == model->pipeline);
  CHECK(std::vector<double>(table->scores.scores.begin(), table->scores.scores.end()) ==
        model->scores);
  CHECK(std::vector<int32_t>(table->scores.sortedIds.begin(), table->scores.sortedIds.end()) ==
        std::vector<int32_t>{0, 1, 3, 4, 2, 6, 5, 7});
}

TEST_CASE("a table whose scores do not fit its tokens is refused") {
  auto contains = [](const std::string &message, std::string_view part) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  };
  CHECK(tableRefusal([](TokenizerModel &) {}) == "accepted");
  contains(tableRefusal([](TokenizerModel &model) { model.scores.clear(); }),
           "scores, sorted_ids: found 0 and 0, expected 1 to 8 of both");
  contains(tableRefusal([](TokenizerModel &model) { model.scores[1] = INFINITY; }),
           "scores: found inf, expected a finite number");
  contains(tableRefusal([](TokenizerModel &model) { model.tokens[1].clear(); }),
           "sorted_ids: token 1 is not after the one before it");
  contains(tableRefusal([](TokenizerModel &model) { model.tokens[1] = std::string("b"); }),
           "is not after the one before it");
  contains(tableRefusal([](TokenizerModel &model) {
             model.merges = {{1, 2, 3}};
           }),
           "merges: found 1, expected none for Unigram");
}

TEST_CASE("a Unigram table with any byte changed is refused or is read within its bounds") {
  Result<TokenizerModel> model = parseTokenizerJson(smallUnigram().dump(), "x");
  REQUIRE(model.isOk());
  const std::vector<std::byte> table = writeTokenizerTable(*model);
  size_t refused = 0;
  for (size_t i = 0; i < table.size(); ++i)
    for (unsigned flip : {1U, 0x80U, 0xFFU}) {
      std::vector<std::byte> changed = table;
      changed[i] ^= static_cast<std::byte>(flip);
      Result<Tokenizer> tokenizer = Tokenizer::load(changed);
      refused += tokenizer.isOk() ? 0 : 1;
      if (!tokenizer.isOk())
        continue;
      Result<Ids> ids = tokenizer->encode("abcéx", true);
      CHECK((!ids.isOk() || ids->size() <= 6));
    }
  CHECK(refused > table.size() / 10);
}

TEST_CASE("a document without a break is encoded by Unigram in reasonable time") {
  // A quadratic search would take hours here.
  CHECK(load(smallUnigram()).encode(std::string(1 << 20, 'a')) == Ids(1 << 20, 1));
}
