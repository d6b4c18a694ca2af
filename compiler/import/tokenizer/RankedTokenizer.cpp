#include "compiler/import/tokenizer/RankedTokenizer.h"

#include "compiler/import/tokenizer/JsonNode.h"
#include "runtime/text/tokenizer/ByteAlphabet.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace moert {

using Json = nlohmann::json;

namespace {

/// Tokens of Kimi after the ranks. Source: as of kKimiPattern.
constexpr int64_t kKimiReserved = 256;
constexpr int64_t kMostTokens = 1 << 24;
/// Published files have 1,000 and 128.
constexpr int64_t kMostSpecialTokens = 1 << 16;
constexpr size_t kMostTokenBytes = 1024;

/// Byte strings by rank. Every single byte must be among them.
struct Ranks {
  std::vector<std::string> tokens;
  std::map<std::string, size_t, std::less<>> byToken;

  Status add(std::string token, uint64_t rank) {
    if (rank != tokens.size())
      return invalidInput("found rank ", rank, " after ", tokens.size(),
                          " tokens, expected ranks in their order, from 0");
    if (token.size() > kMostTokenBytes)
      return invalidInput("found a token of ", token.size(), " bytes with rank ", rank,
                          ", expected at most ", kMostTokenBytes);
    if (token.empty() || !byToken.emplace(token, rank).second)
      return invalidInput("found an empty token, or one twice, with rank ", rank);
    tokens.push_back(std::move(token));
    return {};
  }

  Status checkBytes() const {
    for (int byte = 0; byte < 256; ++byte)
      if (!byToken.contains(std::string(1, static_cast<char>(byte))))
        return invalidInput("found no token of the byte ", byte, " alone, expected all 256");
    return {};
  }
};

std::string spelled(std::string_view token) {
  std::string text;
  appendByteAlphabet(token, text);
  return text;
}

/// The pairs that merge to the token, by their ranks.
std::vector<std::pair<size_t, size_t>> partsOf(const Ranks &ranks, std::string_view token) {
  std::vector<std::pair<size_t, size_t>> parts;
  for (size_t at = 1; at < token.size(); ++at) {
    const auto left = ranks.byToken.find(token.substr(0, at)),
               right = ranks.byToken.find(token.substr(at));
    if (left != ranks.byToken.end() && right != ranks.byToken.end())
      parts.emplace_back(left->second, right->second);
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

/// tokenizer.json without added tokens. The first rank has the id `first`.
Json fileOf(const Ranks &ranks, std::string_view pattern, int64_t first) {
  Json vocabulary = Json::object(), merges = Json::array();
  for (size_t rank = 0; rank < ranks.tokens.size(); ++rank) {
    vocabulary[spelled(ranks.tokens[rank])] = first + static_cast<int64_t>(rank);
    for (const auto &[left, right] : partsOf(ranks, ranks.tokens[rank]))
      merges.push_back(Json::array({spelled(ranks.tokens[left]), spelled(ranks.tokens[right])}));
  }
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}},
             bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"ignore_merges", true},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}}}};
}

Json addedToken(int64_t id, const std::string &content, bool isSpecial) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", isSpecial}};
}

Result<Ranks> readRanks(std::string_view text) {
  Ranks ranks;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t space = std::min(row.find(' '), row.size());
    const std::string_view digits = row.substr(std::min(space + 1, row.size()));
    Result<std::string> token = decodeBase64(row.substr(0, space));
    uint64_t rank = 0;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (!token.isOk() || error != std::errc() || rest != digits.data() + digits.size())
      return invalidInput("line ", line, ": found '", excerpt(row),
                          "', expected a token in base64, a space and its rank");
    MOERT_RETURN_IF_ERROR(ranks.add(std::move(token).value(), rank));
  }
  MOERT_RETURN_IF_ERROR(ranks.checkBytes());
  return ranks;
}

Result<std::string> kimiOf(std::string_view ranksText, std::string_view configText) {
  MOERT_ASSIGN_OR_RETURN(const Ranks ranks, readRanks(ranksText));
  Json storage;
  MOERT_ASSIGN_OR_RETURN(const JsonNode root, JsonNode::parse(configText, storage));
  MOERT_ASSIGN_OR_RETURN(const JsonNode decoder, root.member("added_tokens_decoder"));
  Json file = fileOf(ranks, kKimiPattern, 0);
  const auto first = static_cast<int64_t>(ranks.tokens.size());
  for (int64_t id = first; id < first + kKimiReserved; ++id) {
    std::string content = strCat("<|reserved_token_", id, "|>");
    bool isSpecial = true;
    MOERT_ASSIGN_OR_RETURN(const JsonNode entry, decoder.member(std::to_string(id)));
    if (!entry.isNull()) {
      MOERT_RETURN_IF_ERROR(entry.readText("content", content));
      MOERT_RETURN_IF_ERROR(entry.readOptionalFlag("special", isSpecial));
    }
    file["added_tokens"].push_back(addedToken(id, content, isSpecial));
  }
  return file.dump();
}

/// The tokens of "vocab" that have an id. Later ones are of no use.
Result<Ranks> readTekkenRanks(const JsonNode &root, int64_t count) {
  Ranks ranks;
  MOERT_ASSIGN_OR_RETURN(const JsonNode list, root.member("vocab"));
  MOERT_ASSIGN_OR_RETURN(const std::vector<JsonNode> entries, list.elements());
  if (entries.size() < static_cast<size_t>(count))
    return list.error("found ", entries.size(), " tokens, expected ", count, " or more");
  for (int64_t at = 0; at < count; ++at) {
    const JsonNode &entry = entries[static_cast<size_t>(at)];
    MOERT_ASSIGN_OR_RETURN(const JsonNode digits, entry.member("token_bytes"));
    MOERT_ASSIGN_OR_RETURN(std::string token, digits.bytes());
    MOERT_ASSIGN_OR_RETURN(const JsonNode number, entry.member("rank"));
    MOERT_ASSIGN_OR_RETURN(const int64_t rank, number.integer(0, kMostTokens));
    if (const Status added = ranks.add(std::move(token), static_cast<uint64_t>(rank));
        !added.isOk())
      return entry.error(added.message());
  }
  MOERT_RETURN_IF_ERROR(ranks.checkBytes());
  return ranks;
}

Json beginsWith(int64_t id, const std::string &content) {
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({{{"SpecialToken", {{"id", content}, {"type_id", 0}}}},
                                  {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
          {"special_tokens",
           {{content,
             {{"id", content}, {"ids", Json::array({id})}, {"tokens", Json::array({content})}}}}}};
}

Result<std::string> tekkenOf(std::string_view text) {
  Json storage;
  std::string pattern;
  MOERT_ASSIGN_OR_RETURN(const JsonNode root, JsonNode::parse(text, storage));
  MOERT_ASSIGN_OR_RETURN(const JsonNode config, root.member("config"));
  MOERT_RETURN_IF_ERROR(config.readText("pattern", pattern));
  MOERT_ASSIGN_OR_RETURN(const JsonNode specialCount, config.member("default_num_special_tokens"));
  MOERT_ASSIGN_OR_RETURN(const int64_t first, specialCount.integer(1, kMostSpecialTokens));
  MOERT_ASSIGN_OR_RETURN(const JsonNode size, config.member("default_vocab_size"));
  MOERT_ASSIGN_OR_RETURN(const int64_t all, size.integer(first, kMostTokens));
  MOERT_ASSIGN_OR_RETURN(const Ranks ranks, readTekkenRanks(root, all - first));
  MOERT_ASSIGN_OR_RETURN(const JsonNode list, root.member("special_tokens"));
  MOERT_ASSIGN_OR_RETURN(const std::vector<JsonNode> specials, list.elements());
  if (specials.size() > static_cast<size_t>(first))
    return list.error("found ", specials.size(), " tokens, expected ", first, " or fewer");
  Json file = fileOf(ranks, pattern, first);
  for (int64_t id = 0; id < first; ++id) {
    std::string content = strCat("<SPECIAL_", id, ">");
    if (id < static_cast<int64_t>(specials.size())) {
      const JsonNode &entry = specials[static_cast<size_t>(id)];
      MOERT_RETURN_IF_ERROR(entry.readText("token_str", content));
      MOERT_ASSIGN_OR_RETURN(const JsonNode rank, entry.member("rank"));
      MOERT_RETURN_IF_ERROR(rank.integer(id, id).status());
    }
    if (!file["model"]["vocab"].emplace(content, id).second)
      return list.error("found '", excerpt(content), "', which another token spells");
    file["added_tokens"].push_back(addedToken(id, content, true));
    if (content == "<s>") // Mistral's own code puts it before every text.
      file["post_processor"] = beginsWith(id, content);
  }
  return file.dump();
}

Result<std::string> named(Result<std::string> made, std::string_view fileName) {
  if (!made.isOk())
    return made.status().withContext(fileName);
  return made;
}

} // namespace

Result<std::string> makeKimiTokenizer(std::string_view ranksText, std::string_view configText,
                                      std::string_view fileName) {
  return named(kimiOf(ranksText, configText), fileName);
}

Result<std::string> makeTekkenTokenizer(std::string_view text, std::string_view fileName) {
  return named(tekkenOf(text), fileName);
}

} // namespace moert
