#include "compiler/import/tokenizer/TokenizerJson.h"

#include "compiler/import/tokenizer/TokenizerJsonSteps.h"
#include "compiler/import/tokenizer/TokenizerJsonUnigram.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/text/tokenizer/TokenizerTable.h"

#include <algorithm>

namespace moert {
namespace {

// The largest plausible id of a vocabulary with this many entries: some have holes, but memory is
// needed for every id up to the largest.
int64_t largestBelievableId(size_t entries) {
  return std::min<int64_t>(16 * static_cast<int64_t>(entries) + 65536, 1 << 24) - 1;
}

// Fills model.tokens; the ids point into the document.
Result<TokenIds> parseVocabulary(const JsonNode &node, TokenizerModel &model) {
  MOERT_ASSIGN_OR_RETURN(const auto *entries, node.object());
  if (entries->empty())
    return node.error("found no tokens, expected at least one");
  int64_t largestId = largestBelievableId(entries->size());
  TokenIds ids;
  ids.reserve(entries->size());
  for (const auto &[token, value] : *entries) {
    const auto *number = value.is_number_unsigned() ? value.get_ptr<const uint64_t *>() : nullptr;
    if (!number || *number > static_cast<uint64_t>(largestId))
      return node.error("found ", value.is_number() ? value.dump() : value.type_name(),
                        " as the id of '", excerpt(token), "', expected a whole number from 0 to ",
                        largestId);
    if (token.empty())
      return node.error("found an empty token with id ", *number);
    if (*number >= model.tokens.size())
      model.tokens.resize(*number + 1);
    std::string &slot = model.tokens[*number];
    if (!slot.empty())
      return node.error("found id ", *number, " for both '", excerpt(slot), "' and '",
                        excerpt(token), "'");
    slot = token;
    ids.emplace(token, static_cast<int32_t>(*number));
  }
  return ids;
}

// The two tokens of a merge, "a b" or ["a", "b"]; both empty for a "#version" line.
Result<std::pair<std::string, std::string>> parsePair(const JsonNode &node) {
  constexpr std::string_view kExpected = "two tokens, as \"a b\" or [\"a\", \"b\"]";
  if (node.isText()) {
    MOERT_ASSIGN_OR_RETURN(std::string line, node.text());
    if (line.starts_with("#version"))
      return std::pair<std::string, std::string>();
    size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      return node.wrong(kExpected);
    return std::pair(line.substr(0, space), line.substr(space + 1));
  }
  if (!node.isArray())
    return node.wrong(kExpected);
  MOERT_ASSIGN_OR_RETURN(std::vector<JsonNode> tokens, node.elements());
  if (tokens.size() != 2)
    return node.error("found ", tokens.size(), " elements, expected ", kExpected);
  MOERT_ASSIGN_OR_RETURN(std::string left, tokens[0].text());
  MOERT_ASSIGN_OR_RETURN(std::string right, tokens[1].text());
  return std::pair(std::move(left), std::move(right));
}

Status parseMerges(const JsonNode &node, const TokenIds &ids, TokenizerModel &model) {
  MOERT_ASSIGN_OR_RETURN(std::vector<JsonNode> merges, node.elements());
  model.merges.reserve(merges.size());
  for (const JsonNode &merge : merges) {
    MOERT_ASSIGN_OR_RETURN(auto pair, parsePair(merge));
    if (pair.first.empty() && pair.second.empty() && merge.isText())
      continue;
    std::string merged = pair.first + pair.second;
    int32_t found[3] = {};
    const std::string *wanted[3] = {&pair.first, &pair.second, &merged};
    for (size_t i = 0; i < 3; ++i) {
      auto id = ids.find(*wanted[i]);
      if (id == ids.end())
        return merge.error("found '", excerpt(*wanted[i]), "', expected a token of the vocabulary");
      found[i] = id->second;
    }
    model.merges.push_back({found[0], found[1], found[2]});
  }
  return {};
}

// Refuses settings of BPE that are not supported.
Status refuseUnsupportedSettings(const JsonNode &node) {
  MOERT_ASSIGN_OR_RETURN(JsonNode dropout, node.member("dropout"));
  if (!dropout.isNull() && !dropout.isZero())
    return dropout.wrong("none: encoding has to be repeatable");
  for (std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    MOERT_ASSIGN_OR_RETURN(JsonNode setting, node.member(name));
    if (setting.isNull())
      continue;
    MOERT_ASSIGN_OR_RETURN(std::string text, setting.text());
    if (!text.empty())
      return setting.error("found '", excerpt(text), "', which is not supported; expected none");
  }
  return {};
}

Result<TokenIds> parseBpe(const JsonNode &node, TokenizerModel &model) {
  MOERT_RETURN_IF_ERROR(refuseUnsupportedSettings(node));
  TokenizerPipeline &pipeline = model.pipeline;
  MOERT_RETURN_IF_ERROR(node.readOptionalFlag("byte_fallback", pipeline.byteFallback));
  MOERT_RETURN_IF_ERROR(node.readOptionalFlag("fuse_unk", pipeline.fuseUnknown));
  MOERT_RETURN_IF_ERROR(node.readOptionalFlag("ignore_merges", pipeline.ignoreMerges));
  MOERT_ASSIGN_OR_RETURN(JsonNode vocabulary, node.member("vocab"));
  MOERT_ASSIGN_OR_RETURN(TokenIds ids, parseVocabulary(vocabulary, model));
  MOERT_ASSIGN_OR_RETURN(JsonNode merges, node.member("merges"));
  MOERT_RETURN_IF_ERROR(parseMerges(merges, ids, model));
  MOERT_ASSIGN_OR_RETURN(JsonNode unknown, node.member("unk_token"));
  if (!unknown.isNull()) {
    MOERT_ASSIGN_OR_RETURN(std::string token, unknown.text());
    auto id = ids.find(token);
    bool isKnown = id != ids.end();
    pipeline.unknownCharacter = isKnown ? UnknownCharacter::kToken : UnknownCharacter::kRefuse;
    pipeline.unknownId = isKnown ? id->second : 0;
  }
  return ids;
}

Result<TokenIds> parseModel(const JsonNode &node, TokenizerModel &model) {
  MOERT_ASSIGN_OR_RETURN(JsonNode type, node.member("type"));
  std::string typeName = "BPE"; // Old files omit it; only BPE has merges.
  if (!type.isNull()) {
    MOERT_ASSIGN_OR_RETURN(typeName, type.text());
  }
  if (typeName == "Unigram")
    return parseUnigram(node, model);
  if (typeName == "BPE")
    return parseBpe(node, model);
  return invalidInput("model '", excerpt(typeName),
                      "' is not supported; supported are BPE, Unigram");
}

Result<AddedToken> parseAddedToken(const JsonNode &node) {
  AddedToken token;
  MOERT_RETURN_IF_ERROR(node.readFlag("single_word", token.singleWord));
  MOERT_RETURN_IF_ERROR(node.readFlag("lstrip", token.stripLeft));
  MOERT_RETURN_IF_ERROR(node.readFlag("rstrip", token.stripRight));
  MOERT_RETURN_IF_ERROR(node.readFlag("normalized", token.normalized));
  MOERT_RETURN_IF_ERROR(node.readFlag("special", token.special));
  return token;
}

// An added token has the id of the model's token with the same content, or else the next one after
// the vocabulary. The reference package numbers them so, whatever the file states; a file that
// states another id would therefore name another embedding than the one used.
Status parseAddedTokens(const JsonNode &node, TokenizerModel &model, const TokenIds &ids) {
  if (node.isNull())
    return {};
  MOERT_ASSIGN_OR_RETURN(std::vector<JsonNode> tokens, node.elements());
  auto nextId = static_cast<int32_t>(ids.size());
  std::unordered_map<std::string, int32_t> seen;
  for (const JsonNode &element : tokens) {
    MOERT_ASSIGN_OR_RETURN(AddedToken token, parseAddedToken(element));
    std::string content;
    MOERT_RETURN_IF_ERROR(element.readText("content", content));
    if (content.empty())
      return element.error("found an empty content");
    auto inModel = ids.find(content);
    token.inModel = inModel != ids.end();
    token.id = token.inModel ? inModel->second : nextId;
    MOERT_ASSIGN_OR_RETURN(JsonNode idNode, element.member("id"));
    MOERT_ASSIGN_OR_RETURN(int64_t statedId, idNode.integer(0, INT32_MAX));
    if (statedId != token.id)
      return idNode.error("found ", statedId, " for '", excerpt(content), "', expected ", token.id,
                          token.inModel ? ", its id in the vocabulary"
                                        : ", the next one after the vocabulary");
    auto [other, isNew] = seen.emplace(content, token.id);
    if (!isNew)
      return element.error("found '", excerpt(content), "' twice");
    nextId = std::max(nextId, token.id + 1);
    if (!token.inModel) {
      auto index = static_cast<size_t>(token.id);
      model.tokens.resize(std::max(model.tokens.size(), index + 1));
      if (!model.tokens[index].empty())
        return element.error("found id ", index, " for '", excerpt(content), "', which '",
                             excerpt(model.tokens[index]), "' has");
      model.tokens[index] = content;
    }
    model.addedTokens.push_back(token);
  }
  return {};
}

Result<TokenizerModel> parseDocument(std::string_view text) {
  nlohmann::json document;
  MOERT_ASSIGN_OR_RETURN(JsonNode root, JsonNode::parse(text, document));
  MOERT_ASSIGN_OR_RETURN(JsonNode version, root.member("version"));
  if (!version.isNull()) {
    MOERT_ASSIGN_OR_RETURN(std::string number, version.text());
    if (number != "1.0")
      return version.wrong("'1.0'");
  }
  TokenizerModel model;
  MOERT_ASSIGN_OR_RETURN(JsonNode modelNode, root.member("model"));
  MOERT_ASSIGN_OR_RETURN(TokenIds ids, parseModel(modelNode, model));
  MOERT_ASSIGN_OR_RETURN(JsonNode added, root.member("added_tokens"));
  MOERT_RETURN_IF_ERROR(parseAddedTokens(added, model, ids));
  MOERT_RETURN_IF_ERROR(parseSteps(root, model.tokens.size(), model.pipeline));
  std::vector<std::byte> table = writeTokenizerTable(model);
  MOERT_RETURN_IF_ERROR(Tokenizer::load(table).status());
  return model;
}

} // namespace

Result<TokenizerModel> parseTokenizerJson(std::string_view text, std::string_view fileName) {
  Result<TokenizerModel> model = parseDocument(text);
  if (!model.isOk())
    return model.status().withContext(fileName);
  return model;
}

} // namespace moert
