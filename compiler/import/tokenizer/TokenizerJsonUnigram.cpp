#include "compiler/import/tokenizer/TokenizerJsonUnigram.h"

#include <charconv>
#include <cmath>

namespace moert {
namespace {

Status parsePiece(const JsonNode &node, TokenizerModel &model, TokenIds &ids) {
  MOERT_ASSIGN_OR_RETURN(const auto *pair, node.array());
  if (pair->size() != 2 || !(*pair)[0].is_string() || !(*pair)[1].is_number())
    return node.wrong("a token and its score");
  const auto &token = (*pair)[0].get_ref<const std::string &>();
  if (token.empty())
    return node.error("found an empty token");
  if (!ids.emplace(token, static_cast<int32_t>(model.tokens.size())).second)
    return node.error("found '", excerpt(token), "' twice");
  model.tokens.push_back(token);
  model.scores.push_back(asReferenceReads((*pair)[1].get<double>()));
  return {};
}

} // namespace

double asReferenceReads(double value) {
  char text[32];
  std::to_chars_result end =
      std::to_chars(text, text + sizeof(text), std::abs(value), std::chars_format::scientific);
  uint64_t digits = 0;
  int exponent = 0;
  for (const char *c = text; c != end.ptr; ++c) {
    if (*c == 'e') {
      int stated = 0;
      std::from_chars(c[1] == '+' ? c + 2 : c + 1, end.ptr, stated);
      exponent += stated;
      break;
    }
    if (*c == '.')
      continue;
    digits = digits * 10 + static_cast<uint64_t>(*c - '0');
    exponent -= c == text ? 0 : 1;
  }
  auto result = static_cast<double>(digits);
  for (; exponent < -308; exponent += 308)
    result /= 1e308;
  const std::string power = "1e" + std::to_string(std::abs(exponent));
  double scale = 1;
  std::from_chars(power.data(), power.data() + power.size(), scale);
  result = exponent < 0 ? result / scale : result * scale;
  return value < 0 ? -result : result;
}

Result<TokenIds> parseUnigram(const JsonNode &node, TokenizerModel &model) {
  TokenizerPipeline &pipeline = model.pipeline;
  pipeline.model = ModelKind::kUnigram;
  MOERT_RETURN_IF_ERROR(node.readOptionalFlag("byte_fallback", pipeline.byteFallback));
  MOERT_ASSIGN_OR_RETURN(JsonNode vocabulary, node.member("vocab"));
  MOERT_ASSIGN_OR_RETURN(std::vector<JsonNode> pieces, vocabulary.elements());
  if (pieces.empty())
    return vocabulary.error("found no tokens, expected at least one");
  TokenIds ids;
  ids.reserve(pieces.size());
  for (const JsonNode &piece : pieces)
    MOERT_RETURN_IF_ERROR(parsePiece(piece, model, ids));
  MOERT_ASSIGN_OR_RETURN(JsonNode unknown, node.member("unk_id"));
  pipeline.unknownCharacter = UnknownCharacter::kRefuse;
  if (!unknown.isNull()) {
    MOERT_ASSIGN_OR_RETURN(int64_t id, unknown.integer(0, static_cast<int64_t>(pieces.size()) - 1));
    pipeline.unknownCharacter = UnknownCharacter::kToken;
    pipeline.unknownId = static_cast<int32_t>(id);
  }
  return ids;
}

} // namespace moert
