#include "runtime/engine/Grouping.h"

#include <algorithm>

namespace moert {

void Grouping::group(Step &step, const Rows &experts, uint32_t ranks, uint32_t expertCount,
                     std::span<const uint32_t> ranksTaken) {
  auto ranksOf = [&](uint32_t row) { return ranksTaken.empty() ? ranks : ranksTaken[row]; };
  std::fill_n(begins.begin(), expertCount + 1, 0);
  uint32_t pairs = 0;
  for (uint32_t row = 0; row < step.rows(); ++row)
    for (const int32_t expert : std::span(experts.integers(row), ranksOf(row)))
      if (expert != kNone) {
        ++pairs;
        ++begins[static_cast<uint32_t>(expert) + 1];
      }
  distinct = 0;
  for (uint32_t e = 0; e < expertCount; ++e)
    if (begins[e + 1] != 0)
      wantedExperts[distinct++] = e;
  std::sort(wantedExperts.begin(), wantedExperts.begin() + distinct, [&](uint32_t a, uint32_t b) {
    return begins[a + 1] != begins[b + 1] ? begins[a + 1] > begins[b + 1] : a < b;
  });
  for (uint32_t i = 0; i < distinct; ++i)
    useCounts[i] = begins[wantedExperts[i] + 1];
  for (uint32_t e = 0; e < expertCount; ++e)
    begins[e + 1] += begins[e];
  // Placing moves each expert's begin to its end; this backward pass moves it back.
  for (uint32_t i = step.rows() * ranks; i-- > 0;) {
    const int32_t expert = experts.integers(i / ranks)[i % ranks];
    if (i % ranks < ranksOf(i / ranks) && expert != kNone)
      step.expertRows[--begins[static_cast<uint32_t>(expert) + 1]] = i;
  }
  for (uint32_t e = 0; e < expertCount; ++e)
    begins[e] = begins[e + 1];
  begins[expertCount] = pairs;
}

} // namespace moert
