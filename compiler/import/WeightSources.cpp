#include "compiler/import/ModelDescription.h"
#include "runtime/base/Status.h"

namespace moec {

std::vector<WeightSource> tensorsOf(const WeightSource &source) {
  const size_t place = source.tensor.find('*');
  if (place == std::string::npos)
    return {source};
  std::vector<WeightSource> singles;
  for (uint32_t i = 0; source.shards > 1 && i < source.shards; ++i)
    singles.push_back(source.shard(i));
  if (!singles.empty())
    return singles;
  singles.resize(source.stackedVectors);
  for (size_t i = 0; i < singles.size(); ++i) {
    singles[i].tensor = source.tensor;
    singles[i].tensor.replace(place, 1, moert::strCat(i));
    singles[i].rows = 1;
    singles[i].cols = source.cols / source.stackedVectors;
  }
  return singles;
}

} // namespace moec
