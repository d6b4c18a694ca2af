// Decodes the manifest except its programs (ManifestDecodeProgram.cpp).
#include "runtime/format/Manifest.h"

#include "runtime/format/ManifestDecoder.h"

#include <algorithm>
#include <string_view>

namespace moert {

// Deep enough for manifest, program, step, instruction and the vectors between them.
static constexpr uint32_t kMaxDepth = 16;
// Enough for 900,000 experts.
static constexpr uint32_t kMaxTables = 1'000'000;

Status ManifestDecoder::beginList(const void *elements, uint32_t count, size_t bytesEach,
                                  size_t alignment, std::string_view what) {
  MOERT_RETURN_IF_ERROR(spend(count, bytesEach));
  if (count != 0 && reinterpret_cast<uintptr_t>(elements) % alignment != 0)
    return invalidInput(what, "s lie at an address that is not a multiple of ", alignment);
  return {};
}

void ManifestDecoder::addContext(Status &status, std::string_view what,
                                 std::optional<uint32_t> element) {
  if (!status.isOk())
    status =
        std::move(status).withContext(element ? strCat(what, " ", *element) : std::string(what));
}

static MatrixShape decodeShape(const fb::MatrixShape &shape) {
  return {shape.rows(), shape.cols()};
}

Status ManifestDecoder::decodeFormat(const fb::WeightFormat &format, WeightFormat &value,
                                     uint32_t mark) {
  MOERT_RETURN_IF_ERROR(decodeEnum(format.kind(), kLastWeightKind, "weight kind", value.kind));
  const uint32_t offsets = format.has_offsets() % kHadamardMark;
  if (format.has_offsets() >= 2 * kHadamardMark || offsets > 2)
    return invalidInput("has_offsets is ", uint32_t(format.has_offsets()),
                        ", expected 0, 1 or 2, or 4, 5 or 6");
  value.hasOffsets = offsets == 1;
  value.hasByteScales = offsets == 2;
  value.hasHadamard = format.has_offsets() >= kHadamardMark;
  if (format.refines() < mark || format.refines() > mark + 1)
    return invalidInput("refines is ", uint32_t(format.refines()), ", expected ", mark, " or ",
                        mark + 1);
  value.refines = format.refines() > mark;
  value.group = format.group();
  value.activationGroup = format.activation_group();
  return {};
}

Status ManifestDecoder::decodeResident(const fb::ResidentWeight &weight, ResidentWeight &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*weight.name(), value.name));
  value.shape = decodeShape(*weight.shape());
  value.offset = weight.offset();
  value.bytes = weight.bytes();
  return decodeFormat(*weight.format(), value.format);
}

Status ManifestDecoder::decodeExpert(const fb::Expert &expert, Expert &value) {
  value.fileOffset = expert.file_offset();
  value.bytes = expert.bytes();
  const auto decodeSlice = [&](const fb::Slice &slice, Slice &out) -> Status {
    out = {{}, slice.offset(), slice.bytes(), slice.payload_bytes(), slice.checksum()};
    const bool isMarked = expert.down_formats() && &out == value.slices.data();
    MOERT_RETURN_IF_ERROR(
        decodeFormat(slice.format(), out.format.gateUp, isMarked ? kHasDownFormats : 0));
    out.format.down = out.format.gateUp;
    return {};
  };
  MOERT_RETURN_IF_ERROR(decodeEach(*expert.slices(), value.slices, "slice", decodeSlice));
  return decodeDownFormats(expert, value);
}

Status ManifestDecoder::decodeDownFormats(const fb::Expert &expert, Expert &value) {
  if (!expert.down_formats())
    return {};
  if (expert.down_formats()->size() != value.slices.size())
    return invalidInput(expert.down_formats()->size(),
                        " formats of down, expected one for each of ", value.slices.size(),
                        " slices");
  std::vector<WeightFormat> formats;
  MOERT_RETURN_IF_ERROR(decodeEach(*expert.down_formats(), formats, "format of down",
                                   [this](const fb::WeightFormat &format, WeightFormat &out) {
                                     return decodeFormat(format, out);
                                   }));
  for (size_t s = 0; s < formats.size(); ++s)
    value.slices[s].format.down = formats[s];
  return {};
}

Status ManifestDecoder::decodeMoeLayer(const fb::MoeLayer &layer, MoeLayer &value) {
  value.layer = layer.layer();
  value.topK = layer.top_k();
  MOERT_RETURN_IF_ERROR(
      decodeEnum(layer.activation(), kLast<Activation>, "activation", value.activation.kind));
  value.activation.alpha = layer.activation_alpha();
  value.activation.limit = layer.activation_limit();
  MOERT_RETURN_IF_ERROR(decodeEach(*layer.matrices(), value.matrices, "matrix",
                                   [this](const fb::ExpertMatrix &matrix, ExpertMatrix &out) {
                                     out.shape = decodeShape(matrix.shape());
                                     return decodeEnum(matrix.part(), ExpertPart::kDown,
                                                       "expert part", out.part);
                                   }));
  return decodeEach(
      *layer.experts(), value.experts, "expert",
      [this](const fb::Expert &expert, Expert &out) { return decodeExpert(expert, out); });
}

Status ManifestDecoder::decodeKvSlot(const fb::KvSlot &slot, KvSlot &value) {
  value.kvHeads = slot.kv_heads() & ((1u << kKvKindShift) - 1);
  value.keyDim = slot.key_dim();
  value.valueDim = slot.value_dim();
  return decodeEnum(slot.kv_heads() >> kKvKindShift, KvKind::kInt8, "kind of keys and values",
                    value.kind);
}

Status ManifestDecoder::decodeRope(const fb::Rope &rope, Rope &value) {
  value.attentionFactor = rope.attention_factor();
  MOERT_RETURN_IF_ERROR(
      decodeEnum(rope.style(), RopeStyle::kInterleaved, "rope style", value.style));
  value.originalPositions = rope.original_positions();
  value.longAttentionFactor = rope.long_attention_factor();
  if (rope.long_inverse_frequencies())
    MOERT_RETURN_IF_ERROR(
        decodeScalars(*rope.long_inverse_frequencies(), value.longInverseFrequencies));
  return decodeScalars(*rope.inverse_frequencies(), value.inverseFrequencies);
}

// The file has more numbers than the enumerations; the rules that they stand for.
static Status readStoredNumbers(Plan &plan) {
  CacheRules &rules = plan.rules;
  const auto sharing = StoredSharing(rules.sharing);
  if ((rules.upperPart > 0) != (sharing == StoredSharing::kTwoPools))
    return invalidInput("cache sharing ", uint32_t(sharing), " with a part of ", rules.upperPart,
                        " for upper slices, expected one with ", uint32_t(StoredSharing::kTwoPools),
                        " only");
  rules.sharing = CacheSharing(std::min(sharing, StoredSharing::kOnePool));
  const auto action = StoredMissAction(plan.miss.action);
  if (action > StoredMissAction::kLowerPrompts) {
    plan.miss.action =
        action == StoredMissAction::kLowerAlone ? MissAction::kLower : MissAction::kLowerPrompts;
    rules.baseSlices = plan.miss.baseSlices();
  }
  return {};
}

Status ManifestDecoder::decodePlan(const fb::Plan &plan, Plan &value) {
  Status status;
  decodeFields(status, plan, value);
  return status.isOk() ? readStoredNumbers(value) : status;
}

Status ManifestDecoder::decode(const fb::Manifest &manifest) {
  artifact.pageBytes = manifest.page_bytes();
  Status status;
  decodeField(status, manifest.model(), artifact.model, "model");
  decodeField(status, manifest.state_slots(), artifact.stateSlots, "state slot");
  decodeField(status, manifest.measured(), artifact.measured, "measured");
  decodeField(status, manifest.chat(), artifact.chat, "chat");
  decodeField(status, manifest.sampling(), artifact.sampling, "sampling");
  decodeField(status, manifest.quick_loss(), artifact.quickLoss, "quick_loss");
  decodeField(status, manifest.provenance(), artifact.provenance, "provenance");
  MOERT_RETURN_IF_ERROR(std::move(status));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.residents(), artifact.residents, "resident weight",
                 [this](const auto &in, auto &out) { return decodeResident(in, out); }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.moe_layers(), artifact.moeLayers, "MoE layer",
                 [this](const auto &in, auto &out) { return decodeMoeLayer(in, out); }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.kv_slots(), artifact.kvSlots, "KV slot",
                 [this](const fb::KvSlot &in, KvSlot &out) { return decodeKvSlot(in, out); }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.ropes(), artifact.ropes, "rope",
                 [this](const auto &in, auto &out) { return decodeRope(in, out); }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.programs(), artifact.programs, "program",
                 [this](const auto &in, auto &out) { return decodeProgram(in, out); }));
  return decodeEach(*manifest.plans(), artifact.plans, "plan",
                    [this](const auto &in, auto &out) { return decodePlan(in, out); });
}

Status decodeManifest(std::span<const std::byte> bytes, Artifact &artifact) {
  const uint8_t *data = reinterpret_cast<const uint8_t *>(bytes.data());
  flatbuffers::Verifier::Options limits;
  limits.max_depth = kMaxDepth;
  limits.max_tables = kMaxTables;
  flatbuffers::Verifier verifier(data, bytes.size(), limits);
  if (!fb::VerifyManifestBuffer(verifier))
    return invalidInput("the manifest is not well formed: a field is missing or an offset leaves "
                        "its ",
                        bytes.size(), " bytes");
  return ManifestDecoder(bytes.size(), artifact).decode(*fb::GetManifest(data));
}

} // namespace moert
