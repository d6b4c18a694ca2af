// Finds a tokenizer's added tokens in text: leftmost, and the longest of those that start there.
#pragma once

#include "runtime/tokenizer/Regex.h"
#include "runtime/tokenizer/TokenizerTable.h"

#include <bitset>

namespace moert {

/// Part of a text: an added token, or text between two.
struct TextSegment {
  size_t begin;
  size_t end;
  int32_t id; // -1: text.
};

/// One of the two sets of added tokens of a tokenizer: those matched in the raw text and those
/// matched in the normalized one. Movable; split() may be called from many threads.
class AddedTokenMatcher {
public:
  /// Takes the added tokens whose normalized flag is as given.
  static Result<AddedTokenMatcher> make(const TokenizerTable &table, bool normalized);

  /// Cuts text, which is not empty, into segments, none of them empty.
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

  std::vector<Entry> entries; // By content.
  std::bitset<256> firstBytes;
  std::vector<Regex> wordPattern; // One if any token is a single word.
};

} // namespace moert
