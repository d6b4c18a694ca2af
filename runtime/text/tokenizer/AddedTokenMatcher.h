// Finds a tokenizer's added tokens in text: leftmost, and the longest of those that start there.
#pragma once

#include "runtime/text/tokenizer/Normalizer.h"
#include "runtime/text/tokenizer/Regex.h"
#include "runtime/text/tokenizer/TokenizerTable.h"

#include <bitset>

namespace moert {

/// Part of a text: an added token, or text between two.
struct TextSegment {
  size_t begin;
  size_t end;
  int32_t id; // -1: text.
};

/// One of a tokenizer's two sets of added tokens: those matched in the raw text or those matched in
/// the normalized text. Movable; split() may be called from many threads.
class AddedTokenMatcher {
public:
  /// Uses the added tokens that are matched in normalized text, or without a normalizer the others.
  static Result<AddedTokenMatcher> make(const TokenizerTable &table, const Normalizer *normalizer);

  /// Splits text, which must not be empty, into non-empty segments.
  Result<std::vector<TextSegment>> split(std::string_view text, RegexScratch &scratch) const;

  uint64_t memoryBytes() const;

private:
  struct Entry {
    std::string content;
    AddedToken token;
  };

  const Entry *longestAt(std::string_view text) const;
  Result<bool> touchesWord(std::string_view text, size_t begin, size_t end,
                           RegexScratch &scratch) const;

  std::vector<Entry> entries; // Sorted by content.
  std::bitset<256> firstBytes;
  std::vector<Regex> wordPattern; // One element if any token is a single word.
};

} // namespace moert
