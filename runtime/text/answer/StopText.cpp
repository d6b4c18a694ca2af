#include "runtime/text/answer/StopText.h"

#include <algorithm>

namespace moert {

static std::vector<uint32_t> bordersOf(std::string_view text) {
  std::vector<uint32_t> borders(text.size() + 1, 0);
  uint32_t length = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length])
      length = borders[length];
    if (text[i] == text[length])
      ++length;
    borders[i + 1] = length;
  }
  return borders;
}

Result<StopText> StopText::create(std::vector<std::string> texts) {
  StopText stops;
  size_t longest = 0;
  for (std::string &text : texts) {
    if (text.empty())
      return invalidInput("a stop text is empty, expected at least one character");
    longest = std::max(longest, text.size());
    std::vector<uint32_t> borders = bordersOf(text);
    stops.patterns.push_back({std::move(text), std::move(borders)});
  }
  stops.held.reserve(longest);
  stops.shownBefore.resize(longest + 1);
  return stops;
}

void StopText::Pattern::advance(char next, uint32_t &matched) const {
  while (matched > 0 && text[matched] != next)
    matched = borders[matched];
  if (text[matched] == next)
    ++matched;
}

size_t StopText::shownAmongLast(size_t bytes) const {
  return shownSoFar - shownBefore[(bytesSoFar - bytes) % shownBefore.size()];
}

bool StopText::feedByte(char next, bool isShown, std::string &shown) {
  if (isShown) {
    held.push_back(next);
    ++shownSoFar;
  }
  ++bytesSoFar;
  shownBefore[bytesSoFar % shownBefore.size()] = shownSoFar;
  size_t completed = 0, longestMatch = 0; // Shown bytes.
  auto note = [&](const Pattern &pattern, uint32_t matched, size_t shownBytes) {
    longestMatch = std::max(longestMatch, shownBytes);
    if (matched < pattern.text.size())
      return;
    isComplete = true;
    completed = std::max(completed, shownBytes);
  };
  for (Pattern &pattern : patterns) {
    pattern.advance(next, pattern.matchedInAll);
    note(pattern, pattern.matchedInAll, shownAmongLast(pattern.matchedInAll));
    if (isShown)
      pattern.advance(next, pattern.matchedInShown);
    note(pattern, pattern.matchedInShown, pattern.matchedInShown);
  }
  const size_t certain = held.size() - (isComplete ? completed : longestMatch);
  shown.append(held, 0, certain);
  held.erase(0, certain);
  return isComplete;
}

bool StopText::feedBytes(std::string_view piece, bool isShown, std::string &shown) {
  for (char next : piece)
    if (isComplete || feedByte(next, isShown, shown))
      break;
  return isComplete;
}

bool StopText::feed(std::string_view piece, std::string &shown) {
  if (!patterns.empty())
    return feedBytes(piece, true, shown);
  shown += piece;
  return false;
}

bool StopText::feedHidden(std::string_view piece, std::string &shown) {
  return !patterns.empty() && feedBytes(piece, false, shown);
}

void StopText::flush(std::string &shown) {
  if (!isComplete)
    shown += held;
  held.clear();
  for (Pattern &pattern : patterns)
    pattern.matchedInShown = pattern.matchedInAll = 0;
}

} // namespace moert
