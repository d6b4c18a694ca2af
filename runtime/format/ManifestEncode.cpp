// An Artifact as FlatBuffers. FlatBufferBuilder needs vectors built from the leaves up; it gives
// the same bytes for the same calls.
#include "runtime/format/Manifest.h"

#include "runtime/format/ManifestFields.h"

#include <bit>
#include <cstring>

namespace moert {

static void storeField(Builder &builder, flatbuffers::voffset_t field, const FieldSlot &slot) {
  if (slot.kind == FieldSlot::Kind::kOffset)
    return builder.AddOffset(field, flatbuffers::Offset<void>(uint32_t(slot.number)));
  if (slot.kind == FieldSlot::Kind::kStruct) {
    builder.Align(slot.alignment);
    builder.PushBytes(slot.structure.data(), slot.structure.size());
    return builder.AddStructOffset(field, builder.GetSize());
  }
  const auto add = [&](auto number) {
    if (slot.kind == FieldSlot::Kind::kOptionalNumber)
      builder.AddElement(field, number);
    else
      builder.AddElement(field, number, decltype(number)(0));
  };
  if (slot.bytes == 8)
    add(slot.number);
  else if (slot.bytes == 4)
    add(uint32_t(slot.number));
  else if (slot.bytes == 2)
    add(uint16_t(slot.number));
  else
    add(uint8_t(slot.number));
}

flatbuffers::uoffset_t storeTable(Builder &builder, std::span<const FieldSlot> slots) {
  const flatbuffers::uoffset_t start = builder.StartTable();
  for (size_t bytes = sizeof(uint64_t); bytes > 0; bytes /= 2)
    for (size_t i = slots.size(); i-- > 0;)
      if (slots[i].bytes == bytes)
        storeField(builder, flatbuffers::FieldIndexToOffset(flatbuffers::voffset_t(i)), slots[i]);
  return builder.EndTable(start);
}

namespace {

template <typename T> using Offset = flatbuffers::Offset<T>;

// Applies encode to each element and stores the results as a vector of tables.
template <typename Table, typename Element, typename Encode>
Offset<flatbuffers::Vector<Offset<Table>>>
encodeTables(Builder &builder, const std::vector<Element> &elements, Encode encode) {
  std::vector<Offset<Table>> offsets;
  offsets.reserve(elements.size());
  for (const Element &element : elements)
    offsets.push_back(encode(builder, element));
  return builder.CreateVector(offsets);
}

fb::MatrixShape encode(const MatrixShape &shape) {
  return {shape.rows, shape.cols};
}

fb::WeightFormat encode(const WeightFormat &format, uint32_t mark = 0) {
  const uint32_t offsets = format.hasByteScales ? 2 : format.hasOffsets;
  return {uint8_t(format.kind), uint8_t(offsets + (format.hasHadamard ? kHadamardMark : 0)),
          uint8_t(format.refines | mark), format.group, format.activationGroup};
}

Offset<fb::ResidentWeight> encodeResident(Builder &builder, const ResidentWeight &weight) {
  auto name = builder.CreateString(weight.name);
  fb::MatrixShape shape = encode(weight.shape);
  fb::WeightFormat format = encode(weight.format);
  return fb::CreateResidentWeight(builder, name, &shape, &format, weight.offset, weight.bytes);
}

Offset<fb::Expert> encodeExpert(Builder &builder, const Expert &expert) {
  std::vector<fb::Slice> slices;
  std::vector<fb::WeightFormat> downFormats;
  bool hasDownFormats = false;
  for (const Slice &slice : expert.slices) {
    hasDownFormats |= !slice.format.hasOneFormat();
    downFormats.push_back(encode(slice.format.down));
  }
  for (const Slice &slice : expert.slices) {
    const bool isMarked = hasDownFormats && slices.empty();
    slices.emplace_back(encode(slice.format.gateUp, isMarked ? kHasDownFormats : 0), slice.offset,
                        slice.bytes, slice.payloadBytes, slice.checksum);
  }
  auto slicesOffset = builder.CreateVectorOfStructs(slices);
  Offset<flatbuffers::Vector<const fb::WeightFormat *>> downOffset =
      hasDownFormats ? builder.CreateVectorOfStructs(downFormats) : 0;
  return fb::CreateExpert(builder, expert.fileOffset, expert.bytes, slicesOffset, downOffset);
}

Offset<fb::MoeLayer> encodeMoeLayer(Builder &builder, const MoeLayer &layer) {
  std::vector<fb::ExpertMatrix> matrices;
  for (const ExpertMatrix &matrix : layer.matrices)
    matrices.emplace_back(uint8_t(matrix.part), encode(matrix.shape));
  auto matricesOffset = builder.CreateVectorOfStructs(matrices);
  auto experts = encodeTables<fb::Expert>(builder, layer.experts, encodeExpert);
  return fb::CreateMoeLayer(builder, layer.layer, uint8_t(layer.activation.kind), layer.topK,
                            matricesOffset, experts, layer.activation.alpha,
                            layer.activation.limit);
}

Offset<fb::Rope> encodeRope(Builder &builder, const Rope &rope) {
  auto frequencies = builder.CreateVector(rope.inverseFrequencies);
  Offset<flatbuffers::Vector<float>> longer;
  if (!rope.longInverseFrequencies.empty())
    longer = builder.CreateVector(rope.longInverseFrequencies);
  return fb::CreateRope(builder, uint8_t(rope.style), rope.attentionFactor, frequencies,
                        rope.originalPositions, rope.longAttentionFactor, longer);
}

Offset<fb::Step> encodeStep(Builder &builder, const Instruction &instruction) {
  std::vector<uint32_t> fields;
  describe(instruction, [&]<typename T>(FieldRole, const char *, const T &field) {
    if constexpr (std::is_same_v<T, float>)
      fields.push_back(std::bit_cast<uint32_t>(field));
    else
      fields.push_back(static_cast<uint32_t>(field));
  });
  return fb::CreateStep(builder, static_cast<uint8_t>(instruction.index()),
                        builder.CreateVector(fields));
}

Offset<fb::Program> encodeProgram(Builder &builder, const Program &program) {
  auto name = builder.CreateString(program.name);
  std::vector<fb::Buffer> buffers;
  for (const Buffer &buffer : program.buffers)
    buffers.emplace_back(uint8_t(buffer.kind), buffer.width, buffer.group, buffer.offset,
                         buffer.bytesPerToken);
  auto buffersOffset = builder.CreateVectorOfStructs(buffers);
  auto steps = encodeTables<fb::Step>(builder, program.instructions, encodeStep);
  auto layers = builder.CreateVector(program.layers);
  return fb::CreateProgram(builder, name, program.arenaBytesPerToken, buffersOffset, steps, layers);
}

/// With the numbers of the file, which has more than the enumerations.
std::vector<Plan> withStoredNumbers(std::vector<Plan> plans) {
  for (Plan &plan : plans) {
    if (plan.rules.baseSlices > 0)
      plan.miss.action =
          MissAction(plan.miss.action == MissAction::kLower ? StoredMissAction::kLowerAlone
                                                            : StoredMissAction::kLowerPromptsAlone);
    if (plan.rules.upperPart > 0)
      plan.rules.sharing = CacheSharing(StoredSharing::kTwoPools);
  }
  return plans;
}

} // namespace

std::vector<std::byte> encodeManifest(const Artifact &artifact) {
  Builder builder;
  std::array<FieldSlot, fb::Manifest::Traits::fields_number> slots;
  const auto put = [&]<typename Name, typename T>(Name, const T &value,
                                                  const FieldRule &rule = {}) {
    constexpr size_t kIndex = indexOf<fb::Manifest, Name>();
    if constexpr (requires { value.IsNull(); })
      slots[kIndex] = offsetSlot(value);
    else
      slots[kIndex] = slotOf<StoredField<fb::Manifest, kIndex>>(builder, value, rule);
  };
  put("model"_field, artifact.model);
  put("page_bytes"_field, artifact.pageBytes);
  put("residents"_field,
      encodeTables<fb::ResidentWeight>(builder, artifact.residents, encodeResident));
  put("moe_layers"_field, encodeTables<fb::MoeLayer>(builder, artifact.moeLayers, encodeMoeLayer));
  std::vector<fb::KvSlot> kvSlots;
  for (const KvSlot &slot : artifact.kvSlots)
    kvSlots.emplace_back(slot.kvHeads | uint32_t(slot.kind) << kKvKindShift, slot.keyDim,
                         slot.valueDim);
  put("kv_slots"_field, builder.CreateVectorOfStructs(kvSlots));
  put("ropes"_field, encodeTables<fb::Rope>(builder, artifact.ropes, encodeRope));
  put("programs"_field, encodeTables<fb::Program>(builder, artifact.programs, encodeProgram));
  put("plans"_field, withStoredNumbers(artifact.plans));
  put("provenance"_field, artifact.provenance);
  put("measured"_field, artifact.measured);
  put("state_slots"_field, artifact.stateSlots, kAny.optional());
  put("chat"_field, artifact.chat);
  put("sampling"_field, artifact.sampling);
  put("quick_loss"_field, artifact.quickLoss);
  builder.Finish(flatbuffers::Offset<fb::Manifest>(storeTable(builder, slots)),
                 fb::ManifestIdentifier());
  std::vector<std::byte> bytes(builder.GetSize());
  std::memcpy(bytes.data(), builder.GetBufferPointer(), bytes.size());
  return bytes;
}

} // namespace moert
