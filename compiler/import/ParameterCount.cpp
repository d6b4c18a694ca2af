#include "compiler/import/ParameterCount.h"

#include "compiler/import/TensorCheck.h"

namespace moec {

static uint64_t valuesOf(const LinearDescription &linear) {
  const uint64_t weights = uint64_t{linear.weight.rows} * linear.weight.cols;
  return weights + (linear.bias ? linear.bias->cols : 0);
}

ParameterCount countParameters(const ModelDescription &description) {
  ParameterCount count;
  for (const auto &[name, shape] : tensorShapes(description)) {
    uint64_t values = 1;
    for (const uint64_t dimension : shape)
      values *= dimension;
    count.all += values;
  }
  count.active = count.all;
  if (!description.tiedHead)
    count.active -= uint64_t{description.embedding.rows} * description.embedding.cols;
  for (const LayerDescription &layer : description.layers) {
    if (layer.ngrams) // A token uses a few rows, as of the embedding.
      count.active -= uint64_t{layer.ngrams->table.rows} * layer.ngrams->table.cols;
    if (!layer.moe)
      continue;
    const GluDescription &expert = layer.moe->experts.front();
    uint64_t each = valuesOf(expert.gate) + valuesOf(expert.up) + valuesOf(expert.down);
    for (const auto *biases : {&layer.moe->gateBias, &layer.moe->upBias, &layer.moe->downBias})
      each += *biases ? (*biases)->cols / layer.moe->experts.size() : 0;
    count.experts += each * layer.moe->experts.size();
    count.active -= each * (layer.moe->experts.size() - layer.moe->router.topK);
  }
  return count;
}

} // namespace moec
