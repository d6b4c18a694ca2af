// Tokenizers of ranks, made of the byte-level ones in tests/data/tokenizers: the same ids.
#include "compiler/import/tokenizer/RankedTokenizer.h"

#include "runtime/text/tokenizer/ByteAlphabet.h"
#include "tests/unit/tokenizer/TestTokenizers.h"

#include <map>

using namespace moert;
using Json = nlohmann::json;

namespace {

std::string base64Of(const std::string &bytes) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = at; i < at + 3; ++i)
      bits = bits << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0);
    for (size_t i = 0; i < 4; ++i)
      text += at + i <= bytes.size() ? digits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::string bytesOf(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const CodePoint next = firstCodePoint(token);
    bytes.push_back(static_cast<char>(*alphabetToByte(next.value)));
    token.remove_prefix(next.length);
  }
  return bytes;
}

/// The tokens of a byte-level file, by rank.
std::vector<std::string> ranksOf(const Json &file) {
  std::map<int64_t, std::string> byId;
  for (const auto &[token, id] : file["model"]["vocab"].items())
    byId[id.get<int64_t>()] = token;
  for (const Json &added : file["added_tokens"])
    byId.erase(added["id"].get<int64_t>());
  std::vector<std::string> ranks;
  ranks.reserve(byId.size());
  for (const auto &[id, token] : byId)
    ranks.push_back(bytesOf(token));
  return ranks;
}

std::string linesOf(const std::vector<std::string> &ranks) {
  std::string lines;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    lines += base64Of(ranks[rank]) + " " + std::to_string(rank) + "\n";
  return lines;
}

Json tekkenOf(const Json &file, const std::vector<std::string> &ranks) {
  const Json pattern = file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
  Json tekken = {{"config",
                  {{"pattern", pattern},
                   {"default_num_special_tokens", 4},
                   {"default_vocab_size", ranks.size() + 4}}},
                 {"vocab", Json::array()},
                 {"special_tokens",
                  {{{"rank", 0}, {"token_str", "<unk>"}, {"is_control", true}},
                   {{"rank", 1}, {"token_str", "<s>"}, {"is_control", true}},
                   {{"rank", 2}, {"token_str", "</s>"}, {"is_control", true}}}}};
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    tekken["vocab"].push_back({{"rank", rank}, {"token_bytes", base64Of(ranks[rank])}});
  return tekken;
}

} // namespace

TEST_CASE("Kimi's ranks give the ids of its tokenizer.json") {
  const Json file = Json::parse(readTestFile("kimi.json"));
  const std::vector<std::string> ranks = ranksOf(file);
  const Json special = file["added_tokens"][0];
  REQUIRE(special["id"] == ranks.size()); // The first after the ranks in both.
  const Json config = {
      {"added_tokens_decoder",
       {{std::to_string(ranks.size()), {{"content", special["content"]}, {"special", true}}}}}};
  const auto made = makeKimiTokenizer(linesOf(ranks), config.dump(), "tiktoken.model");
  REQUIRE_MESSAGE(made.isOk(), made.status().message());
  const LoadedTokenizer tokenizer = loadJson(*made), expected = loadJson(file.dump());
  CHECK(tokenizer.tokenizer.vocabularySize() == ranks.size() + 256);
  for (const Json &text : Json::parse(readTestFile("corpus.json")))
    CHECK(tokenizer.encode(text.get<std::string>()) == expected.encode(text.get<std::string>()));
  CHECK(tokenizer.encode("<|reserved_token_" + std::to_string(ranks.size() + 1) + "|>") ==
        std::vector<int32_t>{static_cast<int32_t>(ranks.size() + 1)});
}

TEST_CASE("tekken's ranks give the ids of its tokenizer.json, after the special tokens") {
  const Json file = Json::parse(readTestFile("tekken.json"));
  const std::vector<std::string> ranks = ranksOf(file);
  const auto made = makeTekkenTokenizer(tekkenOf(file, ranks).dump(), "tekken.json");
  REQUIRE_MESSAGE(made.isOk(), made.status().message());
  const LoadedTokenizer tokenizer = loadJson(*made), expected = loadJson(file.dump());
  for (const Json &text : Json::parse(readTestFile("corpus.json"))) {
    std::vector<int32_t> ids = expected.encode(text.get<std::string>());
    for (int32_t &id : ids) // <s> is the second special token, and ranks come after four.
      id = id == static_cast<int32_t>(ranks.size()) ? 1 : id + 4;
    if (text.get<std::string>().find("s>") == std::string::npos)
      CHECK(tokenizer.encode(text.get<std::string>()) == ids);
  }
}

TEST_CASE("broken ranks are refused by their place") {
  const Json file = Json::parse(readTestFile("tekken.json"));
  const std::vector<std::string> ranks = ranksOf(file);
  const auto refused = [](const Result<std::string> &made, std::string_view text) {
    REQUIRE_FALSE(made.isOk());
    const std::string message(made.status().message());
    CAPTURE(message);
    CHECK(message.find(text) != std::string::npos);
    CHECK(message.starts_with("f: "));
  };
  const std::string lines = linesOf(ranks);
  refused(makeKimiTokenizer("AA== 0\nAQ== x\n", "{}", "f"), "line 2: found 'AQ== x'");
  refused(makeKimiTokenizer("AA== 1\n", "{}", "f"), "found rank 1 after 0 tokens");
  refused(makeKimiTokenizer("AA== 0\nAA== 1\n", "{}", "f"), "one twice, with rank 1");
  refused(makeKimiTokenizer("AA== 0\n", "{}", "f"), "no token of the byte 1 alone");
  refused(makeKimiTokenizer(lines, "{", "f"), "");
  const auto changed = [&](const char *path, const Json &value) {
    Json tekken = tekkenOf(file, ranks);
    tekken[Json::json_pointer(path)] = value;
    return makeTekkenTokenizer(tekken.dump(), "f");
  };
  refused(changed("/config/pattern", 1), "config.pattern");
  refused(changed("/config/default_vocab_size", 1 << 20), "vocab: found");
  refused(changed("/config/default_num_special_tokens", 1 << 20),
          "config.default_num_special_tokens: found 1048576");
  std::string longToken; // 3 bytes for 4 letters.
  for (int i = 0; i < 342; ++i)
    longToken += "AAAA";
  refused(changed("/vocab/7/token_bytes", longToken),
          "vocab[7]: found a token of 1026 bytes with rank 7, expected at most 1024");
  refused(changed("/vocab/7/token_bytes", "A"), "vocab[7].token_bytes: found 1 digits");
  refused(changed("/vocab/7/rank", 8), "vocab[7]: found rank 8 after 7 tokens");
  refused(changed("/special_tokens/1/rank", 2), "special_tokens[1].rank");
}
