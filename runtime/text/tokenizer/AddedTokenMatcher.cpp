#include "runtime/text/tokenizer/AddedTokenMatcher.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"

#include <algorithm>

namespace moert {

Result<AddedTokenMatcher> AddedTokenMatcher::make(const TokenizerTable &table,
                                                  const Normalizer *normalizer) {
  RegexScratch scratch;
  AddedTokenMatcher matcher;
  bool hasSingleWord = false;
  for (const AddedToken &token : table.addedTokens) {
    if (token.normalized != (normalizer != nullptr))
      continue;
    std::string content(table.vocabulary.token(token.id));
    if (normalizer)
      MOERT_RETURN_IF_ERROR(normalizer->apply(content, scratch));
    if (content.empty())
      return invalidInput("added token '", excerpt(table.vocabulary.token(token.id)),
                          "' is normalized to nothing");
    hasSingleWord |= token.singleWord;
    matcher.firstBytes.set(static_cast<unsigned char>(content[0]));
    matcher.entries.push_back({std::move(content), token});
  }
  std::sort(matcher.entries.begin(), matcher.entries.end(),
            [](const Entry &a, const Entry &b) { return a.content < b.content; });
  auto same =
      std::adjacent_find(matcher.entries.begin(), matcher.entries.end(),
                         [](const Entry &a, const Entry &b) { return a.content == b.content; });
  if (same != matcher.entries.end())
    return invalidInput("added tokens ", same->token.id, " and ", (same + 1)->token.id,
                        " are both '", excerpt(same->content), "' when normalized");
  if (hasSingleWord) {
    MOERT_ASSIGN_OR_RETURN(Regex regex, Regex::compile(kWordPattern));
    matcher.wordPattern.push_back(std::move(regex));
  }
  return matcher;
}

// Narrows the sorted entries byte by byte to those that are prefixes of text.
const AddedTokenMatcher::Entry *AddedTokenMatcher::longestAt(std::string_view text) const {
  auto low = entries.begin();
  auto high = entries.end();
  const Entry *longest = nullptr;
  for (size_t depth = 0; depth < text.size() && low != high; ++depth) {
    auto byteAt = [depth](const Entry &entry) {
      return depth < entry.content.size() ? static_cast<unsigned char>(entry.content[depth]) : -1;
    };
    int wanted = static_cast<unsigned char>(text[depth]);
    low =
        std::partition_point(low, high, [&](const Entry &entry) { return byteAt(entry) < wanted; });
    high = std::partition_point(low, high,
                                [&](const Entry &entry) { return byteAt(entry) == wanted; });
    if (low != high && low->content.size() == depth + 1)
      longest = &*low;
  }
  return longest;
}

Result<bool> AddedTokenMatcher::touchesWord(std::string_view text, size_t begin, size_t end,
                                            RegexScratch &scratch) const {
  if (begin > 0) {
    size_t lead = begin - 1;
    while ((static_cast<unsigned char>(text[lead]) & 0xC0) == 0x80)
      --lead;
    std::string_view before = text.substr(lead, begin - lead);
    MOERT_ASSIGN_OR_RETURN(RegexMatch match, wordPattern[0].find(before, 0, scratch));
    if (match.found)
      return true;
  }
  if (end == text.size())
    return false;
  std::string_view behind = text.substr(end, utf8Length(text[end]));
  MOERT_ASSIGN_OR_RETURN(RegexMatch match, wordPattern[0].find(behind, 0, scratch));
  return match.found;
}

Result<std::vector<TextSegment>> AddedTokenMatcher::split(std::string_view text,
                                                          RegexScratch &scratch) const {
  std::vector<TextSegment> segments;
  size_t written = 0; // All text before it is in segments.
  for (size_t i = 0; i < text.size();) {
    const Entry *entry =
        firstBytes.test(static_cast<unsigned char>(text[i])) ? longestAt(text.substr(i)) : nullptr;
    if (!entry) {
      ++i;
      continue;
    }
    size_t begin = i;
    size_t end = i + entry->content.size();
    i = end; // The next match starts after this one, even if this one is not used.
    if (entry->token.singleWord) {
      MOERT_ASSIGN_OR_RETURN(bool touches, touchesWord(text, begin, end, scratch));
      if (touches)
        continue;
    }
    if (entry->token.stripLeft)
      begin = std::max(begin - trailingWhiteSpace(text.substr(0, begin)), written);
    if (entry->token.stripRight)
      end += leadingWhiteSpace(text.substr(end));
    if (begin >= end)
      continue; // Only white space that the previous token has already absorbed.
    if (written < begin)
      segments.push_back({written, begin, -1});
    segments.push_back({begin, end, entry->token.id});
    written = end;
  }
  if (written < text.size())
    segments.push_back({written, text.size(), -1});
  return segments;
}

uint64_t AddedTokenMatcher::memoryBytes() const {
  uint64_t total = entries.capacity() * sizeof(Entry);
  for (const Entry &entry : entries)
    total += entry.content.capacity();
  for (const Regex &regex : wordPattern)
    total += regex.memoryBytes();
  return total;
}

} // namespace moert
