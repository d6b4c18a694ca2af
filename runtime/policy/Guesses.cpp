#include "runtime/policy/Guesses.h"

#include <algorithm>

namespace moert {

static bool isAbsent(const CacheDirectory &directory, uint32_t id) {
  const DirectoryEntry &entry = directory.at(id);
  if (!entry.isHeld)
    return !entry.isGuess;
  std::span<const uint32_t> unkept = directory.unkept();
  return std::find(unkept.begin(), unkept.end(), id) != unkept.end();
}

bool guessesAnything(std::span<const GuessRule> rules) {
  return std::any_of(rules.begin(), rules.end(),
                     [](const GuessRule &rule) { return rule.predictor != Predictor::kOff; });
}

void selectGuesses(const GuessRule &rule, const CacheDirectory &directory, uint32_t layer,
                   std::span<const GuessCandidate> candidates, std::vector<uint32_t> &guessed) {
  if (rule.predictor == Predictor::kOff || !directory.isGuessable(layer))
    return;
  uint32_t reads = 0;
  for (const GuessCandidate &candidate :
       candidates.first(std::min<size_t>(rule.candidates, candidates.size()))) {
    if (reads == rule.reads || candidate.share < rule.minShare)
      return;
    uint32_t id = directory.idOf(layer, candidate.expert);
    if (!isAbsent(directory, id))
      continue;
    guessed.push_back(id);
    ++reads;
  }
}

} // namespace moert
