#include "runtime/evaluation/AnswerScore.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace moert {

static char lowered(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

static std::vector<std::string> wordsOf(std::string_view text) {
  std::vector<std::string> words;
  bool isInside = false;
  for (char c : text) {
    c = lowered(c);
    const bool isPart = isAsciiDigit(c) || (c >= 'a' && c <= 'z');
    if (isPart && !isInside)
      words.emplace_back();
    if (isPart)
      words.back() += c;
    isInside = isPart;
  }
  return words;
}

using Pairs = std::map<std::pair<std::string, std::string>, uint64_t>;

static Pairs pairsOf(const std::vector<std::string> &words) {
  Pairs pairs;
  for (size_t i = 1; i < words.size(); ++i)
    ++pairs[{words[i - 1], words[i]}];
  return pairs;
}

double rouge2(std::string_view generated, std::string_view answer) {
  const std::vector<std::string> ours = wordsOf(generated), theirs = wordsOf(answer);
  const Pairs ourPairs = pairsOf(ours);
  uint64_t match = 0;
  for (const auto &[pair, count] : pairsOf(theirs))
    if (auto found = ourPairs.find(pair); found != ourPairs.end())
      match += std::min(found->second, count);
  if (match == 0)
    return 0;
  // 2PR / (P + R) = 2 match / (our pairs + their pairs); both have at least one pair.
  return 2 * static_cast<double>(match) / static_cast<double>(ours.size() - 1 + theirs.size() - 1);
}

double rouge2(std::string_view generated, std::span<const std::string> answers) {
  double best = 0;
  for (const std::string &answer : answers)
    best = std::max(best, rouge2(generated, answer));
  return best;
}

std::string normalizedAnswer(std::string_view text, std::string_view answerAfter) {
  if (!answerAfter.empty())
    if (size_t mark = text.rfind(answerAfter); mark != std::string_view::npos)
      text.remove_prefix(mark + answerAfter.size());
  constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";
  std::string normalized;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool isSpace = kWhiteSpace.find(text[i]) != std::string_view::npos;
    const bool isGroupComma = text[i] == ',' && i > 0 && isAsciiDigit(text[i - 1]) &&
                              i + 1 < text.size() && isAsciiDigit(text[i + 1]);
    if (isGroupComma || (isSpace && (normalized.empty() || normalized.back() == ' ')))
      continue;
    normalized += isSpace ? ' ' : lowered(text[i]);
  }
  if (normalized.ends_with(' '))
    normalized.pop_back();
  if (normalized.ends_with('.'))
    normalized.pop_back();
  return normalized;
}

bool isExactMatch(std::string_view generated, std::span<const std::string> answers,
                  std::string_view answerAfter) {
  const std::string ours = normalizedAnswer(generated, answerAfter);
  return std::any_of(answers.begin(), answers.end(), [&](const std::string &answer) {
    return ours == normalizedAnswer(answer, answerAfter);
  });
}

} // namespace moert
