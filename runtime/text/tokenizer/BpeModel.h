// Byte-pair encoding of one piece of text: characters become tokens, and adjacent tokens merge in
// the order of their ranks.
#pragma once

#include "runtime/text/tokenizer/ByteTokens.h"
#include "runtime/text/tokenizer/TokenizerTable.h"

namespace moert {

/// Scratch memory of encoding. One per thread; keeps the size of the largest piece so far.
struct BpeScratch {
  /// A token of the piece, in a list that merging shortens. length is in bytes of text, 0 after it
  /// was merged into its left neighbour.
  struct Symbol {
    int32_t id;
    uint32_t previous;
    uint32_t next;
    uint32_t length;
  };

  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue; // Heap of rank << 32 | position of the left symbol.
};

/// Holds views into a table, which must outlive it. encode() may be called from many threads.
class BpeModel {
public:
  BpeModel(const VocabularyView &tokens, const MergeView &pairs, const TokenizerPipeline &pipeline);

  /// Appends the ids of a piece, which must not be empty and must be below 4 GiB. Takes O(n log n),
  /// so a piece may be a whole document.
  Status encode(std::string_view piece, BpeScratch &scratch, std::vector<int32_t> &ids) const;

private:
  Status splitIntoCharacters(std::string_view piece, BpeScratch &scratch) const;
  bool appendBytes(std::string_view character, BpeScratch &scratch) const;
  void mergeAll(BpeScratch &scratch) const;

  VocabularyView vocabulary;
  MergeView merges;
  ByteTokens byteTokens;
  bool fuseUnknown;
  bool ignoreMerges;
  UnknownCharacter unknownCharacter;
  int32_t unknownId;
};

} // namespace moert
