#include "tests/unit/tokenizer/TestTokenizers.h"

#include <cstring>

using namespace moert;

namespace {

TokenizerModel parsed(const std::string &json) {
  Result<TokenizerModel> model = parseTokenizerJson(json, "tokenizer.json");
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  return std::move(*model);
}

TokenizerModel smallModel() {
  return parsed(smallTokenizer().dump());
}

// The refusal when reading the table of a model that violates the invariants.
std::string refusalOf(const TokenizerModel &model) {
  std::vector<std::byte> table = writeTokenizerTable(model);
  Result<Tokenizer> tokenizer = Tokenizer::load(table);
  return tokenizer.isOk() ? "accepted" : tokenizer.status().message();
}

bool contains(const std::string &message, std::string_view part) {
  return message.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("reading a table returns the model that it was written from") {
  for (const char *kind : {"gpt2", "llama", "flavours", "deepseek3", "t5"}) {
    CAPTURE(kind);
    TokenizerModel model = parsed(readTestFile(std::string(kind) + ".json"));
    std::vector<std::byte> bytes = writeTokenizerTable(model);
    Result<TokenizerTable> table = readTokenizerTable(bytes);
    REQUIRE_MESSAGE(table.isOk(), table.status().message());
    CHECK(table->pipeline == model.pipeline);
    CHECK(table->addedTokens == model.addedTokens);
    REQUIRE(table->vocabulary.size() == model.tokens.size());
    for (size_t id = 0; id < model.tokens.size(); ++id)
      CHECK(table->vocabulary.token(static_cast<int32_t>(id)) == model.tokens[id]);
    REQUIRE(table->merges.merges.size() == model.merges.size());
    for (uint32_t rank = 0; rank < model.merges.size(); ++rank) {
      CHECK(table->merges.merges[rank] == model.merges[rank]);
      CHECK(table->merges.find(model.merges[rank].left, model.merges[rank].right) == rank);
    }
  }
}

TEST_CASE("the model's tokens are found by content, tokens that were only added are not") {
  nlohmann::json json = smallTokenizer();
  json["added_tokens"] = {addedToken(7, "<x>"), addedToken(0, "a")};
  TokenizerModel model = parsed(json.dump());
  std::vector<std::byte> bytes = writeTokenizerTable(model);
  Result<TokenizerTable> table = readTokenizerTable(bytes);
  REQUIRE(table.isOk());
  CHECK(table->vocabulary.find("ab") == 3);
  CHECK(table->vocabulary.find("a") == 0);
  CHECK(!table->vocabulary.find("<x>").has_value());
  CHECK(!table->vocabulary.find("").has_value());
  CHECK(!table->merges.find(0, 2).has_value());
}

TEST_CASE("the same model gives the same bytes") {
  std::string json = readTestFile("qwen2.json");
  CHECK(writeTokenizerTable(parsed(json)) == writeTokenizerTable(parsed(json)));
}

TEST_CASE("a table of another version is refused with both numbers") {
  std::vector<std::byte> table = writeTokenizerTable(smallModel());
  // The version is the only field of the small table with this number in four bytes; the builder
  // puts it before the larger fields. It is found by changing one place after another.
  size_t refused = 0;
  for (size_t i = 0; i + 4 <= table.size(); i += 4) {
    uint32_t value = 0;
    std::memcpy(&value, table.data() + i, sizeof(value));
    if (value != 1) // The version of a model that is not Unigram.
      continue;
    std::vector<std::byte> changed = table;
    changed[i] = std::byte{9};
    Result<Tokenizer> tokenizer = Tokenizer::load(changed);
    if (!tokenizer.isOk() &&
        contains(tokenizer.status().message(), "found version 9, this reads versions 1 to 2"))
      ++refused;
  }
  CHECK(refused == 1);
}

TEST_CASE("tables that the first program of each version wrote still load and encode") {
  // Seeds of the fuzzer: version 1 of a byte-level tokenizer, version 2 of a Unigram model.
  const std::string text = "The sea";
  for (const char *name : {"whole_byte_level", "whole_tiny_unigram"}) {
    CAPTURE(name);
    std::string file = readTestFile(std::string("../../fuzz/corpus/tokenizer_table/") + name);
    std::vector<uint64_t> aligned(file.size() / 8 + 1);
    std::memcpy(aligned.data(), file.data(), file.size());
    Result<Tokenizer> tokenizer =
        Tokenizer::load(std::as_bytes(std::span(aligned)).first(file.size()));
    REQUIRE_MESSAGE(tokenizer.isOk(), tokenizer.status().message());
    Result<Ids> ids = tokenizer->encode(text, false);
    REQUIRE(ids.isOk());
    CHECK(tokenizer->decode(*ids, false) == text);
  }
}

TEST_CASE("ids outside the vocabulary are refused in every field") {
  TokenizerModel model = smallModel();
  model.merges.push_back({0, 7, 1});
  CHECK(contains(refusalOf(model), "merges: found id 7, expected 0 to 6"));
  model = smallModel();
  model.merges.push_back({-1, 0, 1});
  CHECK(contains(refusalOf(model), "merges: found id -1, expected 0 to 6"));
  model = smallModel();
  model.pipeline.prefixIds = {99};
  CHECK(contains(refusalOf(model), "prefix_ids, suffix_ids: found id 99"));
  model = smallModel();
  model.pipeline.unknownId = -2;
  CHECK(contains(refusalOf(model), "unknown_id: found id -2"));
  CHECK(refusalOf(smallModel()) == "accepted");
}

TEST_CASE("unknown enumerations, patterns and characters are refused") {
  TokenizerModel model = smallModel();
  model.pipeline.normalizers.push_back(
      {static_cast<NormalizerStep::Kind>(99), "", "", false, false, ""});
  CHECK(contains(refusalOf(model), "found normalizer 99, expected 0 to 9"));
  model = smallModel();
  model.pipeline.preTokenizers.resize(1);
  model.pipeline.preTokenizers[0].kind = PreTokenizerStep::Kind::kSplitRegex;
  model.pipeline.preTokenizers[0].pattern = std::string("(a+)+$");
  CHECK(contains(refusalOf(model), "the regular expression (a+)+$ is not supported"));
  model = smallModel();
  model.pipeline.decoders.resize(1);
  model.pipeline.decoders[0].kind = DecoderStep::Kind::kStrip;
  model.pipeline.decoders[0].pattern = std::string("ab");
  CHECK(contains(refusalOf(model),
                 "found 'ab' as the character of a decoder, expected one character"));
  model = smallModel();
  model.tokens[0] = std::string("\xFF");
  CHECK(contains(refusalOf(model), "token_bytes: found broken UTF-8"));
  model.tokens[0] = std::string("\xC3");
  model.tokens[1] = std::string("\xA9");
  CHECK(contains(refusalOf(model), "token 1 starts inside a character"));
}

TEST_CASE("a table at an odd address is refused, since it is used in place") {
  std::vector<std::byte> table = writeTokenizerTable(smallModel());
  std::vector<std::byte> shifted(table.size() + 1);
  std::copy(table.begin(), table.end(), shifted.begin() + 1);
  Result<Tokenizer> tokenizer = Tokenizer::load(std::span(shifted).subspan(1));
  REQUIRE(!tokenizer.isOk());
  CHECK(contains(tokenizer.status().message(), "expected a multiple of 8"));
}

TEST_CASE("a table cut off at any place is refused") {
  std::vector<std::byte> table = writeTokenizerTable(smallModel());
  for (size_t size = 0; size < table.size(); ++size) {
    CAPTURE(size);
    std::vector<std::byte> cut(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(!Tokenizer::load(cut).isOk());
  }
}

TEST_CASE("a table with any byte changed is refused or is read without leaving the table") {
  std::vector<std::byte> table = writeTokenizerTable(smallModel());
  size_t refused = 0;
  for (size_t i = 0; i < table.size(); ++i)
    for (unsigned flip : {1U, 0x80U, 0xFFU}) {
      std::vector<std::byte> changed = table;
      changed[i] ^= static_cast<std::byte>(flip);
      Result<Tokenizer> tokenizer = Tokenizer::load(changed);
      refused += tokenizer.isOk() ? 0 : 1;
      if (!tokenizer.isOk())
        continue;
      Result<Ids> ids = tokenizer->encode("abc▁x", true);
      CHECK((!ids.isOk() || ids->size() <= 5));
      CHECK(tokenizer->decode(Ids{0, 1, 2, 3, 4, 5, 6}, true).size() < 1000);
    }
  CHECK(refused > table.size() / 10);
}
