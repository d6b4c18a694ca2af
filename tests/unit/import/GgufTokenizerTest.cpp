#include "compiler/import/gguf/GgufTokenizer.h"

#include "compiler/import/gguf/GgufHeader.h"
#include "compiler/import/tokenizer/TokenizerJson.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/text/tokenizer/TokenizerTable.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

namespace {

std::string readFile(const std::string &name) {
  std::ifstream file(std::string(MOE_TEST_DATA_DIR) + "/gguf/tokenizers/" + name, std::ios::binary);
  REQUIRE(file.is_open());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Json keysOf(const std::string &name) {
  const std::string file = readFile(name + ".gguf");
  auto header = moec::parseGgufHeader(
      name,
      [&](uint64_t offset, std::span<std::byte> out) {
        std::memcpy(out.data(), file.data() + offset, out.size());
        return moert::Status();
      },
      file.size());
  REQUIRE_MESSAGE(header.isOk(), header.status().message());
  return std::move(header->keys);
}

/// The bytes of the table for a tokenizer in these keys.
std::vector<std::byte> tableOf(const Json &keys) {
  const moert::Result<Json> made = moec::makeGgufTokenizer(keys);
  REQUIRE_MESSAGE(made.isOk(), made.status().message());
  const auto model = moert::parseTokenizerJson(made->dump(), "made");
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  return moert::writeTokenizerTable(*model);
}

} // namespace

// tests/data/gguf/README.md has the source of the expected ids.
TEST_CASE("texts have the ids that llama.cpp gives them") {
  size_t kinds = 0;
  for (const auto &entry :
       std::filesystem::directory_iterator(std::string(MOE_TEST_DATA_DIR) + "/gguf/tokenizers")) {
    if (entry.path().extension() != ".gguf")
      continue;
    ++kinds;
    const std::string kind = entry.path().stem().string();
    CAPTURE(kind);
    const std::vector<std::byte> table = tableOf(keysOf(kind));
    const auto tokenizer = moert::Tokenizer::load(table);
    REQUIRE_MESSAGE(tokenizer.isOk(), tokenizer.status().message());
    const Json expected = Json::parse(readFile(kind + ".expected.json"));
    CHECK(expected.size() >= 29);
    for (const Json &row : expected) {
      const std::string text = row[0];
      CAPTURE(text);
      const auto ids = tokenizer->encode(text, true);
      REQUIRE(ids.isOk());
      CHECK(*ids == row[1].get<Ids>());
    }
  }
  CHECK(kinds >= 5);
}

// The converter to GGUF takes vocabulary and merges from tokenizer.json, and the pattern's name.
TEST_CASE("patterns are those of the published tokenizer.json files") {
  const auto read = [](const std::string &name) {
    std::ifstream file(std::string(MOE_TEST_DATA_DIR) + "/tokenizers/" + name);
    REQUIRE(file.is_open());
    return Json::parse(file);
  };
  const Json corpus = read("corpus.json");
  const std::pair<const char *, const char *> kinds[] = {{"bailing", "bailingmoe"},
                                                         {"bailing", "bailingmoe2"},
                                                         {"kimi", "kimi-k2"},
                                                         {"o200k", "minimax-m2"},
                                                         {"tekken", "tekken"}};
  for (const auto &kind : kinds) {
    const std::string published = kind.first, pre = kind.second;
    CAPTURE(pre);
    const Json file = read(published + ".json");
    Json keys = {{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", pre}};
    Json &tokens = keys["tokenizer.ggml.tokens"] = Json::array();
    Json &types = keys["tokenizer.ggml.token_type"] = Json::array();
    for (const auto &[token, id] : file["model"]["vocab"].items())
      tokens[id.get<size_t>()] = token;
    for (size_t id = 0; id < tokens.size(); ++id)
      types.push_back(1);
    for (const Json &added : file["added_tokens"]) {
      tokens[added["id"].get<size_t>()] = added["content"];
      types[added["id"].get<size_t>()] = added["special"].get<bool>() ? 3 : 4;
      if (added["content"] == "<s>")
        keys["tokenizer.ggml.bos_token_id"] = added["id"];
    }
    keys["tokenizer.ggml.merges"] = file["model"]["merges"];
    const std::vector<std::byte> table = tableOf(keys);
    const auto tokenizer = moert::Tokenizer::load(table);
    REQUIRE_MESSAGE(tokenizer.isOk(), tokenizer.status().message());
    const Json expected = read(published + ".expected.json");
    for (size_t at = 0; at < corpus.size(); ++at) {
      const auto text = corpus[at].get<std::string>();
      CAPTURE(text);
      const auto ids = tokenizer->encode(text, true);
      REQUIRE(ids.isOk());
      CHECK(*ids == expected["ids"][at].get<Ids>());
    }
  }
}

TEST_CASE("special tokens and chat templates become those of tokenizer_config.json") {
  Json keys = keysOf("llama_spm");
  keys["tokenizer.chat_template.tool_use"] = "{{ tools }}";
  const Json config = moec::makeGgufTokenizerConfig(keys);
  CHECK(config["bos_token"] == "<s>");
  CHECK(config["eos_token"] == "</s>");
  REQUIRE(config["chat_template"].size() == 2);
  CHECK(config["chat_template"][0]["name"] == "default");
  CHECK(config["chat_template"][1]["name"] == "tool_use");
}

TEST_CASE("a kind of tokenizer that is not read is named") {
  const auto refusal = [](Json keys) { return moec::makeGgufTokenizer(keys).status().message(); };
  Json keys = keysOf("qwen2");
  keys["tokenizer.ggml.pre"] = "other";
  CHECK(refusal(keys).find("tokenizer.ggml.pre \"other\"") != std::string::npos);
  keys["tokenizer.ggml.model"] = "rwkv";
  CHECK(refusal(keys).find("tokenizer.ggml.model \"rwkv\"") != std::string::npos);
  CHECK(refusal(Json::object()).find("no tokenizer") != std::string::npos);
}
