#include "runtime/predict/Candidates.h"

namespace moert {

// A float times a power of two is exact, so rounding down is the only rounding.
static uint32_t fractionOf(float probability) {
  if (!(probability > 0))
    return 0;
  return probability < 1 ? static_cast<uint32_t>(probability * float(kFixedPointOne))
                         : kFixedPointOne;
}

void addProbabilities(std::span<const float> probabilities, uint32_t tokens,
                      std::span<uint32_t> shares) {
  for (size_t i = 0; i < shares.size(); ++i)
    shares[i] += fractionOf(probabilities[i]) / tokens;
}

// Insertion into a short list: there are few experts, and ties keep the order of arrival.
void listLikeliest(std::span<const uint32_t> shares, uint32_t most,
                   std::vector<PrefetchCandidate> &likeliest) {
  likeliest.clear();
  for (uint32_t expert = 0; expert < shares.size(); ++expert) {
    size_t place = likeliest.size();
    while (place > 0 && shares[expert] > likeliest[place - 1].share)
      --place;
    if (place == most || shares[expert] == 0)
      continue;
    if (likeliest.size() == most)
      likeliest.pop_back();
    likeliest.insert(likeliest.begin() + static_cast<ptrdiff_t>(place), {expert, shares[expert]});
  }
}

} // namespace moert
