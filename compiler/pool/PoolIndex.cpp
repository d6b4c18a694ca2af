#include "compiler/pool/PoolIndex.h"

#include <bit>

namespace moec {

std::vector<uint64_t> poolIndexWords(const PooledExpert &pooled) {
  std::vector<uint64_t> words = {std::bit_cast<uint64_t>(pooled.squaredNorm)};
  for (const PooledGrid &grid : pooled.grids) {
    words.push_back(std::bit_cast<uint64_t>(grid.squaredError));
    words.insert(words.end(), grid.sliceChecksums.begin(), grid.sliceChecksums.end());
  }
  return words;
}

std::vector<PooledExpert> readPoolIndex(const AppendLog &index, const std::vector<size_t> &slices) {
  size_t size = 1;
  for (size_t count : slices)
    size += 1 + count;
  std::vector<PooledExpert> experts;
  for (const AppendLog::Words &words : index.lines()) {
    if (words.size() != size)
      break;
    auto word = words.begin();
    PooledExpert &pooled = experts.emplace_back();
    pooled.squaredNorm = std::bit_cast<double>(*word++);
    for (size_t count : slices) {
      PooledGrid &grid = pooled.grids.emplace_back();
      grid.squaredError = std::bit_cast<double>(*word++);
      grid.sliceChecksums.assign(word, word + ptrdiff_t(count));
      word += ptrdiff_t(count);
    }
  }
  return experts;
}

} // namespace moec
