#include "compiler/import/TensorStore.h"

#include "compiler/import/JsonScan.h"
#include "compiler/import/codecs/CodecParts.h"

#include <algorithm>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

static std::optional<StoredType> asStoredType(TensorType type) {
  switch (type) {
  case TensorType::kF32:
    return StoredType::kF32;
  case TensorType::kF16:
    return StoredType::kF16;
  case TensorType::kBf16:
    return StoredType::kBf16;
  case TensorType::kI32:
    return StoredType::kI32;
  case TensorType::kI64:
    return StoredType::kI64;
  default:
    return std::nullopt;
  }
}

Result<std::unique_ptr<TensorStore>> TensorStore::open(const std::string &directory,
                                                       const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<WeightCodec> codec, readCodec(config, directory));
  MOERT_ASSIGN_OR_RETURN(ShardSet shards, ShardSet::open(directory));
  return of(std::move(shards), std::move(codec));
}

Result<std::unique_ptr<TensorStore>> TensorStore::of(ShardSet shards,
                                                     std::unique_ptr<WeightCodec> codec) {
  std::unique_ptr<TensorStore> store(new TensorStore(std::move(shards), std::move(codec)));
  if (store->weightCodec)
    MOERT_RETURN_IF_ERROR(store->findCoded());
  return store;
}

Status TensorStore::findCoded() {
  for (const std::string_view name : storedTensors.shards().tensorNames()) {
    const TensorLocation location = *storedTensors.find(name);
    std::optional<std::string> plain = weightCodec->plainName(*location.tensor);
    if (!plain && isActivationScale(name))
      parts.push_back(location.tensor->name);
    if (!plain)
      continue;
    if (*plain != name) {
      parts.push_back(location.tensor->name);
      if (const auto other = storedTensors.find(*plain))
        return invalidInput(storedTensors.subject(location), ": found it beside ",
                            storedTensors.subject(*other), ", expected one of them: the codes of ",
                            "a quantized weight, or its values");
    }
    for (const std::string &companion : weightCodec->companions(*plain))
      if (const auto part = storedTensors.find(companion))
        parts.push_back(part->tensor->name);
    coded.push_back({std::move(*plain), location});
  }
  std::sort(parts.begin(), parts.end());
  std::sort(coded.begin(), coded.end(),
            [](const Coded &a, const Coded &b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(
      coded.begin(), coded.end(), [](const Coded &a, const Coded &b) { return a.name == b.name; });
  if (twin != coded.end())
    return invalidInput(storedTensors.subject(twin->codes), ": found it beside ",
                        storedTensors.subject(twin[1].codes), ", expected one of them: both hold ",
                        "the codes of ", quoted(twin->name));
  return Status();
}

const TensorStore::Coded *TensorStore::findCoded(std::string_view name) const {
  const auto entry =
      std::lower_bound(coded.begin(), coded.end(), name,
                       [](const Coded &a, std::string_view wanted) { return a.name < wanted; });
  return entry == coded.end() || entry->name != name ? nullptr : &*entry;
}

bool TensorStore::isPart(std::string_view stored) const {
  return std::binary_search(parts.begin(), parts.end(), stored);
}

bool TensorStore::has(std::string_view name) const {
  return findCoded(name) || (storedTensors.find(name) && !isPart(name));
}

std::vector<std::string_view> TensorStore::names() const {
  std::vector<std::string_view> names;
  for (const std::string_view name : storedTensors.shards().tensorNames())
    if (!isPart(name))
      names.push_back(name);
  for (const Coded &each : coded)
    if (each.codes.tensor->name != each.name)
      names.push_back(each.name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<WeightTensor> TensorStore::weight(std::string_view name) const {
  WeightTensor weight;
  if (const Coded *const entry = findCoded(name)) {
    MOERT_ASSIGN_OR_RETURN(weight.coded, weightCodec->describe(storedTensors, entry->codes, name));
    weight.location = entry->codes;
    weight.shape = weight.coded->shape();
    weight.type = weight.coded->plainType();
    return weight;
  }
  const std::optional<TensorLocation> location = storedTensors.find(name);
  if (!location || isPart(name))
    return invalidInput(storedTensors.shards().directoryPath(), ": found no tensor ", quoted(name),
                        ", expected one", storedTensors.shards().absenceText(name));
  weight.location = *location;
  weight.shape = location->tensor->shape;
  // A depthwise convolution's weights [channels, 1, taps] are a matrix.
  if (weight.shape.size() == 3 && weight.shape[1] == 1)
    weight.shape.erase(weight.shape.begin() + 1);
  // A factor per head, stored to be multiplied with rows of heads: [1, 1, heads, 1].
  if (weight.shape.size() == 4 && weight.shape[0] == 1 && weight.shape[1] == 1 &&
      weight.shape[3] == 1)
    weight.shape = {weight.shape[2]};
  // A convolution's weights [outputs, channels, height, width] are a matrix.
  else if (weight.shape.size() == 4)
    weight.shape = {weight.shape[0], weight.shape[1] * weight.shape[2] * weight.shape[3]};
  weight.type = asStoredType(location->tensor->type);
  return weight;
}

} // namespace moec
