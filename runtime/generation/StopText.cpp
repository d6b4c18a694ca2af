#include "runtime/generation/StopText.h"

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
    stops.patterns.push_back({std::move(text), std::move(borders), 0});
  }
  stops.held.reserve(longest);
  return stops;
}

void StopText::Pattern::advance(char next) {
  while (matched > 0 && text[matched] != next)
    matched = borders[matched];
  if (text[matched] == next)
    ++matched;
}

bool StopText::feedByte(char next, std::string &shown) {
  held.push_back(next);
  size_t completed = 0, longestMatch = 0;
  for (Pattern &pattern : patterns) {
    pattern.advance(next);
    longestMatch = std::max<size_t>(longestMatch, pattern.matched);
    if (pattern.matched == pattern.text.size())
      completed = std::max<size_t>(completed, pattern.matched);
  }
  isComplete = completed > 0;
  size_t certain = held.size() - (isComplete ? completed : longestMatch);
  shown.append(held, 0, certain);
  held.erase(0, certain);
  return isComplete;
}

bool StopText::feed(std::string_view piece, std::string &shown) {
  if (isComplete)
    return true;
  if (patterns.empty()) {
    shown += piece;
    return false;
  }
  for (char next : piece)
    if (feedByte(next, shown))
      return true;
  return false;
}

void StopText::flush(std::string &shown) {
  if (!isComplete)
    shown += held;
  held.clear();
  for (Pattern &pattern : patterns)
    pattern.matched = 0;
}

} // namespace moert
