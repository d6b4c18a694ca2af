#include "compiler/import/gguf/GgufTokenizer.h"

#include "compiler/import/tokenizer/RankedTokenizer.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::strCat;
using Json = nlohmann::json;

namespace {

// Patterns that split text, each as the tokenizer.json files have it.
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?)"
    R"([\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLineEnd = "[\r\n]", kLastSpaces = R"(\s+$)";
constexpr std::string_view kCased =
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-"
    "\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3"
    "-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-"
    "\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-"
    "\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc"
    "\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-"
    "\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134"
    "\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"
    "\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900"
    "-\U0001e943]+";
constexpr std::string_view kWide =
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";
constexpr std::string_view kHan = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";
constexpr std::string_view kHanKana = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kNewLines = R"([^\n]+|[\n]+)";

constexpr std::array kQwen2Splits = {kQwen2};
constexpr std::array kQwen35Splits = {kQwen35};
constexpr std::array kLlama3Splits = {kLlama3};
constexpr std::array kGpt4oSplits = {kGpt4o};
constexpr std::array kDeepSeekV3Splits = {kThreeDigits, kHanKana, kDeepSeekV3};
constexpr std::array kDeepSeekSplits = {kLineEnd, kCased, kWide, kLastSpaces, kHan, kDigit};
constexpr std::array kDigitSplits = {kDigit};
constexpr std::array kTekkenSplits = {kTekken};
constexpr std::array kBailingSplits = {kBailing};
constexpr std::array kKimiSplits = {moert::kKimiPattern};
constexpr std::array kLagunaSplits = {kNewLines, kQwen2};

/// What a name in tokenizer.ggml.pre stands for. Text is not normalized, as in llama.cpp.
struct Splitting {
  std::string_view name;
  std::span<const std::string_view> splits = {};
  bool usesGpt2Pattern = false;  // After the splits.
  bool takesWholePieces = false; // A piece in the vocabulary is a token, merges or not.
};

constexpr std::array kSplittings = {
    Splitting{"bailingmoe", kBailingSplits},
    Splitting{"bailingmoe2", kBailingSplits},
    Splitting{"chatglm-bpe", kLlama3Splits},
    Splitting{"deepseek-llm", kDeepSeekSplits},
    Splitting{"deepseek-r1-qwen", kQwen2Splits},
    Splitting{"deepseek-v3", kDeepSeekV3Splits},
    Splitting{"glm4", kLlama3Splits, false, true},
    Splitting{"glm5", kLlama3Splits, false, true},
    Splitting{"gpt-2", {}, true},
    Splitting{"gpt-4o", kGpt4oSplits},
    Splitting{"hunyuan", kQwen2Splits},
    Splitting{"kimi-k2", kKimiSplits},
    Splitting{"laguna", kLagunaSplits},
    Splitting{"lfm2", kLlama3Splits, false, true},
    Splitting{"llama-bpe", kLlama3Splits, false, true},
    Splitting{"llama-v3", kLlama3Splits, false, true},
    Splitting{"llama3", kLlama3Splits, false, true},
    Splitting{"llama4", kGpt4oSplits},
    Splitting{"minimax-m2", kGpt4oSplits},
    Splitting{"olmo", {}, true},
    Splitting{"qwen2", kQwen2Splits},
    Splitting{"qwen35", kQwen35Splits},
    Splitting{"refact", kDigitSplits, true},
    Splitting{"smollm", kDigitSplits, true},
    Splitting{"starcoder", kDigitSplits, true},
    Splitting{"tekken", kTekkenSplits, false, true},
};

enum TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4 };

constexpr const char *kSpace = "\u2581"; // For a space in a token.

class TokenizerMaker {
public:
  explicit TokenizerMaker(const Json &all) : keys(all) {}

  Result<Json> make() {
    if (!find("tokens"))
      return invalidInput("found no tokenizer");
    const std::string kind = textAt("model").value_or("");
    MOERT_RETURN_IF_ERROR(readTokens());
    Json file = {{"version", "1.0"}, {"added_tokens", addedTokens()}, {"normalizer", nullptr}};
    file["post_processor"] = postProcessor(kind);
    if (kind == "gpt2")
      return makeByteLevel(std::move(file));
    if (kind == "llama" || kind == "gemma4")
      return makeSpaced(std::move(file), kind);
    return invalidInput("found tokenizer.ggml.model \"", kind,
                        "\", which is not read; read are gpt2, llama and gemma4");
  }

private:
  const Json *find(std::string_view name) const {
    const auto found = keys.find(strCat("tokenizer.ggml.", name));
    return found == keys.end() ? nullptr : &*found;
  }

  std::optional<std::string> textAt(std::string_view name) const {
    const Json *const found = find(name);
    return found && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
  }

  bool flag(std::string_view name, bool fallback) const {
    const Json *const found = find(name);
    return found && found->is_boolean() ? found->get<bool>() : fallback;
  }

  /// A token's id; nullopt if the key is absent or names no token.
  std::optional<size_t> tokenAt(std::string_view name) const {
    const Json *const found = find(name);
    const bool isId = found && found->is_number_integer() && *found >= 0 && *found < tokens.size();
    return isId ? std::optional(found->get<size_t>()) : std::nullopt;
  }

  moert::Status readTokens() {
    const Json &list = *find("tokens");
    if (!list.is_array())
      return invalidInput("found tokenizer.ggml.tokens that are no array");
    const Json *const typeList = find("token_type");
    for (size_t id = 0; id < list.size(); ++id) {
      if (!list[id].is_string())
        return invalidInput("found token ", id, " that is no text");
      tokens.push_back(list[id].get<std::string>());
      const bool hasType = typeList && typeList->is_array() && id < typeList->size() &&
                           (*typeList)[id].is_number_integer();
      types.push_back(hasType ? (*typeList)[id].get<int>() : kNormal);
      // Text is encoded with the first of equal tokens.
      if (!tokens[id].empty())
        ids.emplace(tokens[id], id);
    }
    return {};
  }

  Json vocabulary() const {
    Json object = Json::object();
    for (const auto &[token, id] : ids)
      object[token] = id;
    return object;
  }

  Json addedTokens() const {
    Json list = Json::array();
    for (const auto &[token, id] : ids)
      if (types[id] == kControl || types[id] == kUserDefined || types[id] == kUnknown)
        list.push_back({{"id", id},
                        {"content", token},
                        {"single_word", false},
                        {"lstrip", false},
                        {"rstrip", false},
                        {"normalized", false},
                        {"special", types[id] != kUserDefined}});
    return list;
  }

  /// Puts the tokens that begin and end a text around it.
  Json postProcessor(std::string_view kind) const {
    const std::string pre = textAt("pre").value_or("");
    const bool begins = kind != "gpt2" || pre == "lfm2" || pre == "tekken" ||
                        (pre.starts_with("llama") && pre != "llama4");
    Json single = Json::array(), special = Json::object();
    const auto add = [&](std::string_view flagName, std::string_view idName, bool fallback) {
      const std::optional<size_t> id = tokenAt(idName);
      if (!id || !flag(flagName, fallback))
        return;
      single.push_back({{"SpecialToken", {{"id", tokens[*id]}, {"type_id", 0}}}});
      special[tokens[*id]] = {{"id", tokens[*id]}, {"ids", {*id}}, {"tokens", {tokens[*id]}}};
    };
    add("add_bos_token", "bos_token_id", begins);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    add("add_eos_token", "eos_token_id", false);
    return {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special}};
  }

  static Json split(std::string_view pattern) {
    return {{"type", "Split"},
            {"pattern", {{"Regex", pattern}}},
            {"behavior", "Isolated"},
            {"invert", false}};
  }

  /// Byte-level BPE.
  Result<Json> makeByteLevel(Json file) const {
    const std::string pre = textAt("pre").value_or("");
    const auto *splitting = std::find_if(kSplittings.begin(), kSplittings.end(),
                                         [&](const Splitting &each) { return each.name == pre; });
    if (splitting == kSplittings.end()) {
      std::string known;
      for (const Splitting &each : kSplittings)
        known += strCat(known.empty() ? "" : ", ", each.name);
      return invalidInput("found tokenizer.ggml.pre \"", pre, "\", which is not read; read are ",
                          known);
    }
    const Json *const merges = find("merges");
    if (!merges)
      return invalidInput("found no tokenizer.ggml.merges");
    Json steps = Json::array();
    for (const std::string_view pattern : splitting->splits)
      steps.push_back(split(pattern));
    steps.push_back({{"type", "ByteLevel"},
                     {"add_prefix_space", false},
                     {"use_regex", splitting->usesGpt2Pattern}});
    file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
    file["decoder"] = {{"type", "ByteLevel"}};
    file["model"] = {{"type", "BPE"},
                     {"ignore_merges", splitting->takesWholePieces},
                     {"vocab", vocabulary()},
                     {"merges", *merges}};
    return file;
  }

  /// BPE on characters, with a character for spaces and tokens for single bytes.
  Result<Json> makeSpaced(Json file, std::string_view kind) const {
    const bool isSentencePiece = kind == "llama";
    const bool prepends = flag("add_space_prefix", isSentencePiece);
    Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
    file["normalizer"] = replace;
    if (prepends)
      file["normalizer"] = {{"type", "Sequence"},
                            {"normalizers", {{{"type", "Prepend"}, {"prepend", kSpace}}, replace}}};
    file["pre_tokenizer"] = isSentencePiece ? Json() : split(kNewLines);
    Json steps = {{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                  {{"type", "ByteFallback"}},
                  {{"type", "Fuse"}}};
    if (prepends)
      steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    file["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
    const std::optional<size_t> unknown = tokenAt("unknown_token_id");
    const auto typed = std::find(types.begin(), types.end(), kUnknown);
    const size_t unknownId = unknown ? *unknown : static_cast<size_t>(typed - types.begin());
    const Json *const merges = find("merges");
    if (!merges && !isSentencePiece)
      return invalidInput("found no tokenizer.ggml.merges");
    MOERT_ASSIGN_OR_RETURN(Json pairs, merges ? Result<Json>(*merges) : mergesOfScores());
    file["model"] = {{"type", "BPE"},
                     {"unk_token", unknownId < tokens.size() ? Json(tokens[unknownId]) : Json()},
                     {"fuse_unk", true},
                     {"byte_fallback", true},
                     {"vocab", vocabulary()},
                     {"merges", std::move(pairs)}};
    return file;
  }

  /// The merges that give what SentencePiece does: of all neighbours whose join is a token, the one
  /// with the highest score first. As transformers makes them of a SentencePiece model.
  Result<Json> mergesOfScores() const {
    const Json *const scores = find("scores");
    if (!scores || !scores->is_array() || scores->size() != tokens.size())
      return invalidInput("found no tokenizer.ggml.scores of all tokens");
    struct Merge {
      double score;
      size_t left, right;
    };
    std::vector<Merge> merges;
    for (const auto &[token, id] : ids) {
      if (!(*scores)[id].is_number())
        return invalidInput("found the score of token ", id, ", which is no number");
      std::vector<Merge> own;
      for (size_t at = 1; at < token.size(); ++at) {
        const auto left = ids.find(token.substr(0, at)), right = ids.find(token.substr(at));
        if (left != ids.end() && right != ids.end())
          own.push_back({(*scores)[id].get<double>(), left->second, right->second});
      }
      merges.insert(merges.end(), own.begin(), own.end());
    }
    std::sort(merges.begin(), merges.end(), [&](const Merge &a, const Merge &b) {
      return std::tuple(-a.score, ids.at(tokens[a.left] + tokens[a.right]), a.left, a.right) <
             std::tuple(-b.score, ids.at(tokens[b.left] + tokens[b.right]), b.left, b.right);
    });
    Json list = Json::array();
    for (const Merge &merge : merges)
      list.push_back({tokens[merge.left], tokens[merge.right]});
    return list;
  }

  const Json &keys;
  std::vector<std::string> tokens;
  std::vector<int> types;
  std::map<std::string, size_t, std::less<>> ids;
};

} // namespace

Result<Json> makeGgufTokenizer(const Json &keys) {
  return TokenizerMaker(keys).make();
}

Json makeGgufTokenizerConfig(const Json &keys) {
  Json config = Json::object();
  const auto tokens = keys.find("tokenizer.ggml.tokens");
  for (const auto &[name, key] :
       {std::pair("bos_token", "bos"), std::pair("eos_token", "eos"),
        std::pair("unk_token", "unknown"), std::pair("pad_token", "padding")}) {
    const auto id = keys.find(strCat("tokenizer.ggml.", key, "_token_id"));
    if (id != keys.end() && tokens != keys.end() && id->is_number_integer() && *id >= 0 &&
        *id < tokens->size())
      config[name] = (*tokens)[id->get<size_t>()];
  }
  constexpr std::string_view kTemplate = "tokenizer.chat_template";
  Json templates = Json::array();
  for (const auto &[key, value] : keys.items())
    if (key == kTemplate)
      templates.push_back({{"name", "default"}, {"template", value}});
    else if (key.starts_with(strCat(kTemplate, ".")))
      templates.push_back({{"name", key.substr(kTemplate.size() + 1)}, {"template", value}});
  if (!templates.empty())
    config["chat_template"] = templates;
  return config;
}

} // namespace moec
