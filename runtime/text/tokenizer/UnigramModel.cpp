#include "runtime/text/tokenizer/UnigramModel.h"

#include "runtime/base/Utf8.h"

#include <algorithm>

namespace moert {
namespace {

// What an unknown character costs beyond the lowest score; SentencePiece's constant.
constexpr double kUnknownPenalty = 10;

} // namespace

UnigramModel::UnigramModel(const VocabularyView &tokens, const ScoreView &tokenScores,
                           const TokenizerPipeline &pipeline)
    : vocabulary(tokens), scores(tokenScores), byteTokens(tokens, pipeline.byteFallback),
      unknownScore(*std::min_element(tokenScores.scores.begin(), tokenScores.scores.end()) -
                   kUnknownPenalty),
      hasUnknown(pipeline.unknownCharacter == UnknownCharacter::kToken),
      unknownId(pipeline.unknownId) {
  size_t next = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    firstByteBegins[byte] = static_cast<uint32_t>(next);
    while (next < scores.sortedIds.size() &&
           static_cast<unsigned char>(vocabulary.token(scores.sortedIds[next])[0]) == byte)
      ++next;
  }
  firstByteBegins[256] = static_cast<uint32_t>(next);
}

Status UnigramModel::encode(std::string_view piece, UnigramScratch &scratch,
                            std::vector<int32_t> &ids) const {
  MOERT_RETURN_IF_ERROR(findBestPath(piece, scratch));
  collectSpans(scratch);
  // From the end of the text to its start, as the path was followed.
  for (size_t i = scratch.spans.size(); i-- > 0;) {
    const UnigramScratch::Span &span = scratch.spans[i];
    appendIds(piece.substr(span.begin, span.end - span.begin), ids);
  }
  return {};
}

Status UnigramModel::findBestPath(std::string_view piece, UnigramScratch &scratch) const {
  std::vector<UnigramScratch::Node> &nodes = scratch.nodes;
  nodes.assign(piece.size() + 1, {0, UINT32_MAX, 0});
  for (size_t begin = 0; begin < piece.size();) {
    size_t length = utf8Length(piece[begin]);
    if (!extendByTokens(piece, begin, length, scratch)) {
      if (!hasUnknown)
        return invalidInput("found '", piece.substr(begin, length),
                            "', which is not in the vocabulary, and the tokenizer has no token for "
                            "unknown characters");
      UnigramScratch::Node &target = nodes[begin + length];
      double score = unknownScore + nodes[begin].score;
      if (target.start == UINT32_MAX || score > target.score)
        target = {score, static_cast<uint32_t>(begin), unknownId};
    }
    begin += length;
  }
  return {};
}

// Enters every token that the text continues with at begin. Of equal sums the earlier one stays, as
// in the reference package. Returns whether one of the tokens is exactly the next character.
bool UnigramModel::extendByTokens(std::string_view piece, size_t begin, size_t characterBytes,
                                  UnigramScratch &scratch) const {
  bool hasCharacter = false;
  const double scoreBefore = scratch.nodes[begin].score;
  auto firstByte = static_cast<unsigned char>(piece[begin]);
  auto low = scores.sortedIds.begin() + firstByteBegins[firstByte];
  auto high = scores.sortedIds.begin() + firstByteBegins[firstByte + 1];
  // The tokens in [low, high) start with the `length` bytes at begin; a token that is those bytes
  // is the first of them.
  for (size_t length = 1; low != high; ++length) {
    if (std::string_view token = vocabulary.token(*low); token.size() == length) {
      UnigramScratch::Node &target = scratch.nodes[begin + length];
      double score = scores.scores[static_cast<size_t>(*low)] + scoreBefore;
      if (target.start == UINT32_MAX || score > target.score)
        target = {score, static_cast<uint32_t>(begin), *low};
      hasCharacter |= length == characterBytes;
      ++low;
    }
    if (begin + length == piece.size())
      break;
    auto wanted = static_cast<unsigned char>(piece[begin + length]);
    auto byteAt = [&](int32_t id) {
      return static_cast<unsigned char>(vocabulary.token(id)[length]);
    };
    low = std::partition_point(low, high, [&](int32_t id) { return byteAt(id) < wanted; });
    high = std::partition_point(low, high, [&](int32_t id) { return byteAt(id) == wanted; });
  }
  return hasCharacter;
}

// Follows the best path from the end; neighbouring unknown tokens become one span.
void UnigramModel::collectSpans(UnigramScratch &scratch) const {
  scratch.spans.clear();
  for (auto end = static_cast<uint32_t>(scratch.nodes.size() - 1); end > 0;) {
    const UnigramScratch::Node &node = scratch.nodes[end];
    bool isUnknown = hasUnknown && node.id == unknownId;
    if (isUnknown && !scratch.spans.empty() && scratch.spans.back().isUnknown)
      scratch.spans.back().begin = node.start;
    else
      scratch.spans.push_back({node.start, end, isUnknown});
    end = node.start;
  }
}

// A span of unknown tokens may be a token itself.
void UnigramModel::appendIds(std::string_view text, std::vector<int32_t> &ids) const {
  if (std::optional<int32_t> id = vocabulary.find(text))
    ids.push_back(*id);
  else if (byteTokens.hasAll(text))
    for (char byte : text)
      ids.push_back(byteTokens.id(byte));
  else
    ids.push_back(unknownId);
}

} // namespace moert
