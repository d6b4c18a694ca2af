#include "runtime/policy/Guesses.h"

#include <algorithm>

namespace moert {

static bool isLeaving(const CacheDirectory &directory, uint32_t id) {
  std::span<const uint32_t> unkept = directory.unkept();
  return directory.at(id).isHeld && std::find(unkept.begin(), unkept.end(), id) != unkept.end();
}

bool guessesAnything(std::span<const GuessRule> rules) {
  return std::any_of(rules.begin(), rules.end(),
                     [](const GuessRule &rule) { return rule.predictor != Predictor::kOff; });
}

void selectGuesses(const GuessRule &rule, const CacheDirectory &directory, uint32_t layer,
                   std::span<const GuessCandidate> candidates, std::vector<uint32_t> &absent,
                   std::vector<uint32_t> &leaving) {
  if (rule.predictor == Predictor::kOff || !directory.isGuessable(layer))
    return;
  uint32_t reads = 0;
  for (const GuessCandidate &candidate :
       candidates.first(std::min<size_t>(rule.candidates, candidates.size()))) {
    if (reads == rule.reads || candidate.share < rule.minShare)
      return;
    uint32_t id = directory.idOf(layer, candidate.expert);
    const DirectoryEntry &entry = directory.at(id);
    if (isLeaving(directory, id))
      leaving.push_back(id);
    if (entry.isHeld || entry.isGuess)
      continue;
    absent.push_back(id);
    ++reads;
  }
}

} // namespace moert
