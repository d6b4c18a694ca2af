#include "compiler/import/WeightSource.h"

namespace moec {

std::vector<WeightSource> tensorsOf(const WeightSource &source) {
  if (source.shards == 1)
    return {source};
  std::vector<WeightSource> singles;
  for (uint32_t i = 0; i < source.shards; ++i)
    singles.push_back(source.shard(i));
  return singles;
}

} // namespace moec
