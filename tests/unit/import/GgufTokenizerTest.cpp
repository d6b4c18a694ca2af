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
