// The paths section of an artifact from a stranger; the layers are the artifact's.
#include "runtime/experts/PathTable.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr uint32_t kExperts[] = {2, 3, 4};
  const auto *bytes = reinterpret_cast<const std::byte *>(data);
  auto table = moert::PathTable::create({bytes, size}, kExperts);
  if (!table.isOk())
    return 0;
  const int32_t chosen[] = {0, 1};
  uint32_t probabilities[4];
  for (uint32_t layer = 0; layer < 3; ++layer)
    table->predict(layer, chosen, chosen, std::span(probabilities).first(kExperts[layer]));
  return 0;
}
