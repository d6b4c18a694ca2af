// Describes an artifact as JSON: all numbers that the page of text summarizes. docs/inspect.md
// documents the keys.
#include "compiler/inspection/Inspect.h"
#include "compiler/inspection/InspectSections.h"

#include "runtime/format/FieldJson.h"

using namespace moert;

namespace moec {

static void writeFormat(JsonWriter &json, const WeightFormat &format) {
  json.key("format").string(nameOfFormat(format));
  json.key("kind").string(nameOf(format.kind));
  json.key("group").number(format.group);
  json.key("activation_group").number(format.activationGroup);
  json.key("has_offsets").boolean(format.hasOffsets);
  json.key("refines").boolean(format.refines);
  json.key("has_byte_scales").boolean(format.hasByteScales);
  json.key("has_hadamard").boolean(format.hasHadamard);
}

static void writeSections(JsonWriter &json, const Artifact &artifact) {
  json.key("sections").beginArray();
  auto write = [&](const char *name, uint64_t offset, uint64_t bytes) {
    if (bytes == 0)
      return;
    json.beginObject();
    json.key("name").string(name);
    json.key("offset").number(offset);
    json.key("bytes").number(bytes);
    json.endObject();
  };
  write("resident", artifact.residentOffset, artifact.residentBytes);
  write("records", artifact.recordsOffset, artifact.recordsBytes);
  write("tokenizer", artifact.tokenizerOffset, artifact.tokenizerBytes);
  write("paths", artifact.pathsOffset, artifact.pathsBytes);
  write("trace", artifact.traceOffset, artifact.traceBytes);
  write("manifest", artifact.manifestOffset, artifact.manifestBytes);
  json.endArray();
}

static void writeResidents(JsonWriter &json, const Artifact &artifact) {
  json.key("residents").beginArray();
  for (const ResidentWeight &weight : artifact.residents) {
    json.beginObject();
    json.key("name").string(weight.name);
    json.key("rows").number(weight.shape.rows);
    json.key("cols").number(weight.shape.cols);
    writeFormat(json, weight.format);
    json.key("file_offset").number(artifact.residentOffset + weight.offset);
    json.key("bytes").number(weight.bytes);
    json.endObject();
  }
  json.endArray();
}

static void writeKvSlots(JsonWriter &json, const Artifact &artifact) {
  json.key("kv_slots").beginArray();
  for (const KvSlot &slot : artifact.kvSlots) {
    json.beginObject();
    json.key("heads").number(slot.kvHeads);
    json.key("key_dim").number(slot.keyDim);
    json.key("value_dim").number(slot.valueDim);
    json.key("bits").number(bitsOf(slot.kind));
    json.key("bytes").number(slot.bytes());
    json.endObject();
  }
  json.endArray();
}

static void writeExpert(JsonWriter &json, const MoeLayer &layer, uint64_t index) {
  const Expert &expert = layer.experts[index];
  json.beginObject();
  json.key("layer").number(layer.layer);
  json.key("expert").number(index);
  json.key("bits").number(widthOf(expert).bits);
  json.key("down_bits").number(widthOf(expert).downBits);
  json.key("bits_per_weight").number(bitsPerWeight(layer, expert));
  json.key("low_copy_slices").number(uint64_t(lowCopySlicesOf(expert)));
  json.key("file_offset").number(expert.fileOffset);
  json.key("bytes").number(expert.bytes);
  json.key("slices").beginArray();
  for (const Slice &slice : expert.slices) {
    json.beginObject();
    writeFormat(json, slice.format.gateUp);
    if (slice.format.down != slice.format.gateUp) {
      json.key("down").beginObject();
      writeFormat(json, slice.format.down);
      json.endObject();
    }
    json.key("offset").number(slice.offset);
    json.key("bytes").number(slice.bytes);
    json.key("payload_bytes").number(slice.payloadBytes);
    json.endObject();
  }
  json.endArray();
  json.endObject();
}

static void writeExperts(JsonWriter &json, const Artifact &artifact) {
  json.key("expert_payload_bytes").number(expertPayloadBytes(artifact));
  json.key("low_copy_payload_bytes").number(lowCopyPayloadBytes(artifact));
  json.key("expert_padding_bytes")
      .number(artifact.recordsBytes - expertPayloadBytes(artifact) - lowCopyPayloadBytes(artifact));
  json.key("experts").beginArray();
  for (const MoeLayer &layer : artifact.moeLayers)
    for (uint64_t e = 0; e < layer.experts.size(); ++e)
      writeExpert(json, layer, e);
  json.endArray();
  writeWidths(json, artifact);
}

static void writePrograms(JsonWriter &json, const Artifact &artifact) {
  json.key("programs").beginArray();
  for (const Program &program : artifact.programs) {
    json.beginObject();
    json.key("name").string(program.name);
    json.key("instructions").number(uint64_t(program.instructions.size()));
    json.key("buffers").number(uint64_t(program.buffers.size()));
    json.key("arena_bytes_per_token").number(program.arenaBytesPerToken);
    json.endObject();
  }
  json.endArray();
}

void writePlans(JsonWriter &json, const Artifact &artifact) {
  json.key("page_bytes").number(artifact.pageBytes);
  writeField(json.key("plans"), artifact.plans);
}

std::string artifactAsJson(const Artifact &artifact, const std::string &fileName) {
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  json.key("file").string(fileName);
  json.key("file_bytes").number(artifact.fileBytes);
  json.key("major_version").number(uint32_t(artifact.majorVersion));
  json.key("minor_version").number(uint32_t(artifact.minorVersion));
  writeField(json.key("model"), artifact.model);
  if (artifact.measured)
    writeField(json.key("measured"), *artifact.measured);
  if (artifact.quickLoss)
    writeField(json.key("quick_loss"), *artifact.quickLoss);
  writeChat(json, artifact);
  writeSections(json, artifact);
  writeResidents(json, artifact);
  writeKvSlots(json, artifact);
  writeExperts(json, artifact);
  writePlans(json, artifact);
  writePrograms(json, artifact);
  json.key("provenance").beginObject();
  for (const auto &[key, value] : artifact.provenance)
    json.key(key).string(value);
  json.endObject();
  json.endObject();
  return text + "\n";
}

} // namespace moec
