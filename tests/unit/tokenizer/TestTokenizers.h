// The tokenizers in tests/data/tokenizers and a small one to extend, for the tests of this
// directory.
#pragma once

#include "compiler/import/tokenizer/TokenizerJson.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/text/tokenizer/TokenizerTable.h"

#include <doctest/doctest.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace moert {

/// The files NAME.json in tests/data/tokenizers.
inline constexpr const char *kTokenizerKinds[] = {
    "gpt2",     "granite", "llama3", "qwen2",   "o200k", "deepseek3", "llama", "metaspace",
    "flavours", "qwen35",  "tekken", "bailing", "kimi",  "gemma",     "t5",    "unigram_bytes"};

inline std::string readTestFile(const std::string &name) {
  std::ifstream file(std::string(MOE_TEST_DATA_DIR) + "/tokenizers/" + name, std::ios::binary);
  REQUIRE(file.is_open());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// A tokenizer with the table that it points into.
struct LoadedTokenizer {
  std::vector<std::byte> table;
  Tokenizer tokenizer;

  std::vector<int32_t> encode(std::string_view text) const {
    Result<std::vector<int32_t>> ids = tokenizer.encode(text, true);
    REQUIRE_MESSAGE(ids.isOk(), ids.status().message());
    return *ids;
  }
};

inline LoadedTokenizer loadJson(std::string_view json) {
  Result<TokenizerModel> model = parseTokenizerJson(json, "tokenizer.json");
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  std::vector<std::byte> table = writeTokenizerTable(*model);
  Result<Tokenizer> tokenizer = Tokenizer::load(table);
  REQUIRE_MESSAGE(tokenizer.isOk(), tokenizer.status().message());
  return {std::move(table), std::move(*tokenizer)};
}

/// A tokenizer of a few letters that a test can change before it is read.
inline nlohmann::json smallTokenizer() {
  return nlohmann::json::parse(R"({
    "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
    "post_processor": null, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "▁": 5, "<unk>": 6},
              "merges": ["a b", ["ab", "c"]]}})");
}

inline nlohmann::json addedToken(int id, const std::string &content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", false}};
}

inline LoadedTokenizer load(const nlohmann::json &json) {
  return loadJson(json.dump());
}

using Ids = std::vector<int32_t>;

} // namespace moert
