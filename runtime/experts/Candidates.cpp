#include "runtime/experts/Candidates.h"

namespace moert {

// A float times a power of two is exact, so rounding down is the only rounding.
static uint32_t fixedPointOf(float probability) {
  if (!(probability > 0))
    return 0;
  return probability < 1 ? static_cast<uint32_t>(probability * float(kFixedPointOne))
                         : kFixedPointOne;
}

void addProbabilities(std::span<const float> probabilities, uint32_t tokens,
                      std::span<uint32_t> sums) {
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] += fixedPointOf(probabilities[i]) / tokens;
}

// Insertion into a short list: there are few experts, and ties keep the order of arrival.
void listLikeliest(std::span<const uint32_t> probabilities, uint32_t most,
                   std::vector<PrefetchCandidate> &likeliest) {
  likeliest.clear();
  for (uint32_t expert = 0; expert < probabilities.size(); ++expert) {
    size_t place = likeliest.size();
    while (place > 0 && probabilities[expert] > likeliest[place - 1].probability)
      --place;
    if (place == most || probabilities[expert] == 0)
      continue;
    if (likeliest.size() == most)
      likeliest.pop_back();
    likeliest.insert(likeliest.begin() + static_cast<ptrdiff_t>(place),
                     {expert, probabilities[expert]});
  }
}

} // namespace moert
