// Unigram encoding of one piece of text: of all ways to write it as tokens, the one whose scores
// have the largest sum (Viterbi).
#pragma once

#include "runtime/text/tokenizer/ByteTokens.h"
#include "runtime/text/tokenizer/TokenizerTable.h"

#include <array>

namespace moert {

/// Scratch memory of encoding. One per thread; keeps the size of the largest piece so far.
struct UnigramScratch {
  /// The best way to write the text before a position: its last token and where that starts.
  struct Node {
    double score;
    uint32_t start; // UINT32_MAX: not reached yet.
    int32_t id;
  };
  struct Span {
    uint32_t begin;
    uint32_t end;
    bool isUnknown;
  };

  std::vector<Node> nodes; // By position in bytes.
  std::vector<Span> spans;
};

/// Holds views into a table, which must outlive it. encode() may be called from many threads.
class UnigramModel {
public:
  UnigramModel(const VocabularyView &tokens, const ScoreView &tokenScores,
               const TokenizerPipeline &pipeline);

  /// Appends the ids of a piece, which must not be empty and must be below 4 GiB. Takes O(n) for a
  /// vocabulary whose longest token is bounded, so a piece may be a whole document.
  Status encode(std::string_view piece, UnigramScratch &scratch, std::vector<int32_t> &ids) const;

private:
  Status findBestPath(std::string_view piece, UnigramScratch &scratch) const;
  bool extendByTokens(std::string_view piece, size_t begin, size_t characterBytes,
                      UnigramScratch &scratch) const;
  void collectSpans(UnigramScratch &scratch) const;
  void appendIds(std::string_view text, std::vector<int32_t> &ids) const;

  VocabularyView vocabulary;
  ScoreView scores;
  ByteTokens byteTokens;
  std::array<uint32_t, 257> firstByteBegins; // In scores.sortedIds, by the token's first byte.
  double unknownScore;
  bool hasUnknown;
  int32_t unknownId;
};

} // namespace moert
