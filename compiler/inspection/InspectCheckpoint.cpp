#include "compiler/inspection/InspectCheckpoint.h"

#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/base/Size.h"

#include <map>

using namespace moert;

namespace moec {

namespace {

uint64_t bytesOf(const TensorLocation &location) {
  return location.tensor->end - location.tensor->begin;
}

uint64_t bytesOf(const WeightTensor &weight) {
  if (!weight.coded)
    return bytesOf(weight.location);
  uint64_t bytes = 0;
  for (const TensorLocation &location : weight.coded->tensors())
    bytes += bytesOf(location);
  return bytes;
}

/// Codes with scales, not numbers.
bool isQuantized(const WeightTensor &weight) {
  return weight.coded &&
         (!weight.coded->view || tensorBlock(weight.location.tensor->type).elements > 1);
}

std::string typeOf(const WeightTensor &weight) {
  std::string type(tensorTypeName(weight.location.tensor->type));
  if (!weight.coded || weight.coded->view)
    return type;
  if (weight.coded->codes.format.kind == NumberFormat::Kind::kNibble)
    type += " of 4-bit codes";
  return strCat(type, ", scales ", tensorTypeName(weight.coded->scales.location.tensor->type));
}

/// An absent model_type is the importer's to refuse.
std::string modelType(const Checkpoint &checkpoint) {
  const Result<std::string> type = checkpoint.config().string("model_type");
  return type.isOk() ? type.value() : "";
}

} // namespace

Result<std::vector<StoredWeights>> storedWeights(const Checkpoint &checkpoint) {
  std::map<std::string, StoredWeights> byType;
  for (const std::string_view name : checkpoint.weightNames()) {
    MOERT_ASSIGN_OR_RETURN(const WeightTensor weight, checkpoint.weight(name));
    const std::string type = typeOf(weight);
    StoredWeights &entry = byType[type];
    uint64_t values = 1; // Does not overflow: the codes of all values are in the file.
    for (const uint64_t size : weight.shape)
      values *= size;
    entry.type = type;
    entry.isQuantized = isQuantized(weight);
    ++entry.tensors;
    entry.values += values;
    entry.bytes += bytesOf(weight);
  }
  std::vector<StoredWeights> weights;
  weights.reserve(byType.size());
  for (auto &[type, entry] : byType)
    weights.push_back(std::move(entry));
  return weights;
}

Result<std::string> describeCheckpoint(const Checkpoint &checkpoint) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<StoredWeights> weights, storedWeights(checkpoint));
  const std::string quantization = checkpoint.quantizationText();
  std::string text = strCat(checkpoint.directory(), ": a checkpoint\n\n");
  text += strCat(kIndent, "model type:   ", modelType(checkpoint), "\n");
  text += strCat(kIndent, "quantization: ", quantization.empty() ? "none" : quantization, "\n\n");
  text += "weights as stored:\n";
  TextTable table({{"type", TextTable::Align::kLeft}, {"tensors"}, {"values"}, {"size"}});
  StoredWeights all;
  for (const StoredWeights &each : weights) {
    table.addRow({each.type, strCat(each.tensors), strCat(each.values), formatBytes(each.bytes)});
    all.tensors += each.tensors;
    all.values += each.values;
    all.bytes += each.bytes;
  }
  table.addRow({"all", strCat(all.tensors), strCat(all.values), formatBytes(all.bytes)});
  return strCat(text, table.text(kIndent));
}

Result<std::string> checkpointAsJson(const Checkpoint &checkpoint) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<StoredWeights> weights, storedWeights(checkpoint));
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  json.key("directory").string(checkpoint.directory());
  json.key("model_type").string(modelType(checkpoint));
  json.key("quantization").string(checkpoint.quantizationText());
  json.key("weights").beginArray();
  for (const StoredWeights &each : weights) {
    json.beginObject();
    json.key("type").string(each.type);
    json.key("is_quantized").boolean(each.isQuantized);
    json.key("tensors").number(each.tensors);
    json.key("values").number(each.values);
    json.key("bytes").number(each.bytes);
    json.endObject();
  }
  json.endArray();
  json.endObject();
  return text + "\n";
}

} // namespace moec
