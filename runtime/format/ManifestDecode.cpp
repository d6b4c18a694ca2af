// FlatBuffers to an Artifact. The verifier proves that every offset stays in the buffer; here every
// enumeration and flag is checked, and that the decoded size stays in proportion to the bytes:
// offsets of a hostile buffer may all point to one large vector, which a writer never does.
#include "runtime/format/Manifest.h"

#include <artifact_generated.h>

#include <string_view>
#include <type_traits>

namespace moert {

namespace {

// Deep enough for manifest, program, step, instruction and the vectors between them.
constexpr uint32_t kMaxDepth = 16;
// As many as 300,000 experts with two variants each would need.
constexpr uint32_t kMaxTables = 1'000'000;

/// Decodes one manifest into one artifact. Lives for one call of decodeManifest().
class Decoder {
public:
  Decoder(uint64_t manifestBytes, Artifact &target) : bytesLeft(manifestBytes), artifact(target) {}

  Status decode(const fb::Manifest &manifest);

private:
  // What is not shared cannot be larger, all together, than the manifest that holds it.
  Status spend(uint64_t count, uint64_t bytesEach) {
    if (count > bytesLeft / bytesEach)
      return invalidInput("the manifest refers to the same bytes twice");
    bytesLeft -= count * bytesEach;
    return {};
  }

  template <typename Enum>
  Status decodeEnum(uint8_t number, Enum last, const char *what, Enum &value) {
    if (number > uint8_t(last))
      return invalidInput("unknown ", what, " ", uint32_t(number), ", this reads 0 to ",
                          uint32_t(last));
    value = Enum(number);
    return {};
  }

  Status decodeFlag(uint8_t number, const char *what, bool &value) {
    if (number > 1)
      return invalidInput(what, " is ", uint32_t(number), ", expected 0 or 1");
    value = number == 1;
    return {};
  }

  Status decodeString(const flatbuffers::String &string, std::string &value) {
    MOERT_RETURN_IF_ERROR(spend(string.size(), 1));
    value.assign(string.data(), string.size());
    return {};
  }

  // FlatBuffers' verifier holds offsets, tables and the length of a vector to their alignment, but
  // not what is in the vector. Where there is nothing, a writer need not align it.
  template <typename Vector>
  Status checkAligned(const Vector &vector, size_t alignment, const char *what) {
    if (vector.size() != 0 && reinterpret_cast<uintptr_t>(vector.Data()) % alignment != 0)
      return invalidInput(what, "s lie at an address that is no multiple of ", alignment);
    return {};
  }

  template <typename T>
  Status decodeScalars(const flatbuffers::Vector<T> &vector, std::vector<T> &values) {
    MOERT_RETURN_IF_ERROR(spend(vector.size(), sizeof(T)));
    MOERT_RETURN_IF_ERROR(checkAligned(vector, alignof(T), "number"));
    values.assign(vector.begin(), vector.end());
    return {};
  }

  // Calls decodeElement for each element of a vector of tables or structs; says which failed.
  template <typename Vector, typename Element, typename Decode>
  Status decodeEach(const Vector &vector, uint64_t bytesEach, std::vector<Element> &elements,
                    const char *what, Decode decodeElement) {
    MOERT_RETURN_IF_ERROR(spend(vector.size(), bytesEach));
    constexpr size_t kAlignment = alignof(std::remove_pointer_t<decltype(vector.Get(0))>);
    MOERT_RETURN_IF_ERROR(checkAligned(vector, kAlignment, what));
    elements.resize(vector.size());
    for (uint32_t i = 0; i < vector.size(); ++i) {
      Status status = decodeElement(*vector.Get(i), elements[i]);
      if (!status.isOk())
        return std::move(status).withContext(strCat(what, " ", i));
    }
    return {};
  }

  Status decodeFormat(const fb::WeightFormat &format, WeightFormat &value);
  Status decodeModel(const fb::ModelInfo &model);
  Status decodeResident(const fb::ResidentWeight &weight, ResidentWeight &value);
  Status decodeExpert(const fb::Expert &expert, Expert &value);
  Status decodeMoeLayer(const fb::MoeLayer &layer, MoeLayer &value);
  Status decodeRope(const fb::Rope &rope, Rope &value);
  Status decodeStep(const fb::Step &step, Instruction &value);
  Status decodeProgram(const fb::Program &program, Program &value);
  Status decodePlan(const fb::Plan &plan, Plan &value);
  Status decodeMeasuredText(const fb::MeasuredText &text, MeasuredText &value);
  Status decodeMeasured(const fb::Measured &measured, Measured &value);
  Status decodeMeasured(const fb::Manifest &manifest);
  Status decodePairs(const flatbuffers::Vector<flatbuffers::Offset<fb::Provenance>> &pairs,
                     std::vector<std::pair<std::string, std::string>> &values, const char *what);

  uint64_t bytesLeft;
  Artifact &artifact;
};

MatrixShape decodeShape(const fb::MatrixShape &shape) {
  return {shape.rows(), shape.cols()};
}

Status Decoder::decodeFormat(const fb::WeightFormat &format, WeightFormat &value) {
  MOERT_RETURN_IF_ERROR(decodeEnum(format.kind(), WeightKind::kInt1, "weight kind", value.kind));
  MOERT_RETURN_IF_ERROR(decodeFlag(format.has_offsets(), "has_offsets", value.hasOffsets));
  MOERT_RETURN_IF_ERROR(decodeFlag(format.refines(), "refines", value.refines));
  value.group = format.group();
  value.activationGroup = format.activation_group();
  return {};
}

Status Decoder::decodeModel(const fb::ModelInfo &model) {
  ModelInfo &value = artifact.model;
  MOERT_RETURN_IF_ERROR(decodeString(*model.model_type(), value.modelType));
  value.vocabularySize = model.vocabulary_size();
  value.hiddenSize = model.hidden_size();
  value.layers = model.layers();
  value.maxPositions = model.max_positions();
  if (auto bos = model.bos_token())
    value.bosToken = *bos;
  return decodeScalars(*model.eos_tokens(), value.eosTokens);
}

Status Decoder::decodeResident(const fb::ResidentWeight &weight, ResidentWeight &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*weight.name(), value.name));
  value.shape = decodeShape(*weight.shape());
  value.offset = weight.offset();
  value.bytes = weight.bytes();
  return decodeFormat(*weight.format(), value.format);
}

Status Decoder::decodeExpert(const fb::Expert &expert, Expert &value) {
  value.fileOffset = expert.file_offset();
  value.bytes = expert.bytes();
  MOERT_RETURN_IF_ERROR(decodeEach(
      *expert.slices(), sizeof(fb::Slice), value.slices, "slice",
      [this](const fb::Slice &slice, Slice &out) {
        out = {{}, slice.offset(), slice.bytes(), slice.payload_bytes(), slice.checksum()};
        return decodeFormat(slice.format(), out.format);
      }));
  return decodeEach(*expert.variants(), sizeof(uint32_t), value.variants, "variant",
                    [this](const fb::Variant &variant, std::vector<uint8_t> &out) {
                      return decodeScalars(*variant.slices(), out);
                    });
}

Status Decoder::decodeMoeLayer(const fb::MoeLayer &layer, MoeLayer &value) {
  value.layer = layer.layer();
  MOERT_RETURN_IF_ERROR(
      decodeEnum(layer.activation(), Activation::kSilu, "activation", value.activation));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*layer.matrices(), sizeof(fb::ExpertMatrix), value.matrices, "matrix",
                 [this](const fb::ExpertMatrix &matrix, ExpertMatrix &out) {
                   out.shape = decodeShape(matrix.shape());
                   return decodeEnum(matrix.part(), ExpertPart::kDown, "expert part", out.part);
                 }));
  return decodeEach(
      *layer.experts(), sizeof(uint32_t), value.experts, "expert",
      [this](const fb::Expert &expert, Expert &out) { return decodeExpert(expert, out); });
}

Status Decoder::decodeRope(const fb::Rope &rope, Rope &value) {
  value.attentionFactor = rope.attention_factor();
  MOERT_RETURN_IF_ERROR(
      decodeEnum(rope.style(), RopeStyle::kInterleaved, "rope style", value.style));
  return decodeScalars(*rope.inverse_frequencies(), value.inverseFrequencies);
}

Status Decoder::decodeStep(const fb::Step &step, Instruction &value) {
  switch (step.instruction_type()) {
  case fb::Instruction::Embed: {
    const fb::Embed &i = *step.instruction_as_Embed();
    value = EmbedInstruction{i.dst(), i.weight(), i.scale()};
    return {};
  }
  case fb::Instruction::Norm: {
    const fb::Norm &i = *step.instruction_as_Norm();
    NormKind kind = NormKind::kRms;
    MOERT_RETURN_IF_ERROR(decodeEnum(i.kind(), NormKind::kLayer, "norm kind", kind));
    value = NormInstruction{i.src(), i.dst(), i.weight(), i.bias(), kind, i.epsilon(), i.segment()};
    return {};
  }
  case fb::Instruction::Quantize: {
    const fb::Quantize &i = *step.instruction_as_Quantize();
    value = QuantizeInstruction{i.src(), i.dst()};
    return {};
  }
  case fb::Instruction::Linear: {
    const fb::Linear &i = *step.instruction_as_Linear();
    value = LinearInstruction{i.src(), i.dst(), i.weight(), i.bias()};
    return {};
  }
  case fb::Instruction::ApplyRope: {
    const fb::ApplyRope &i = *step.instruction_as_ApplyRope();
    value = RopeInstruction{i.buffer(), i.heads(), i.head_dim(), i.rope()};
    return {};
  }
  case fb::Instruction::StoreKv: {
    const fb::StoreKv &i = *step.instruction_as_StoreKv();
    value = StoreKvInstruction{i.key(), i.value(), i.slot()};
    return {};
  }
  case fb::Instruction::Attend: {
    const fb::Attend &i = *step.instruction_as_Attend();
    value = AttendInstruction{i.query(), i.dst(), i.slot(), i.heads(), i.window(), i.scale()};
    return {};
  }
  case fb::Instruction::Activate: {
    const fb::Activate &i = *step.instruction_as_Activate();
    Activation activation = Activation::kSilu;
    MOERT_RETURN_IF_ERROR(decodeEnum(i.activation(), Activation::kSilu, "activation", activation));
    value = ActivateInstruction{i.gate(), i.up(), i.dst(), activation};
    return {};
  }
  case fb::Instruction::Route: {
    const fb::Route &i = *step.instruction_as_Route();
    RouterScoring scoring = RouterScoring::kSoftmaxThenTopK;
    bool renormalize = false;
    MOERT_RETURN_IF_ERROR(
        decodeEnum(i.scoring(), RouterScoring::kSoftmaxThenTopK, "router scoring", scoring));
    MOERT_RETURN_IF_ERROR(decodeFlag(i.renormalize(), "renormalize", renormalize));
    value = RouteInstruction{i.scores(), i.experts(), i.weights(), i.moe_layer(),
                             scoring,    i.top_k(),   renormalize, i.weight_scale()};
    return {};
  }
  case fb::Instruction::Experts: {
    const fb::Experts &i = *step.instruction_as_Experts();
    value = ExpertsInstruction{i.src(),      i.experts(), i.weights(), i.dst(),    i.moe_layer(),
                               i.gathered(), i.gate(),    i.up(),      i.hidden(), i.ranks()};
    return {};
  }
  case fb::Instruction::Predict: {
    const fb::Predict &i = *step.instruction_as_Predict();
    value = PredictInstruction{i.src(), i.scores(), i.weight(), i.bias(), i.moe_layer(), i.ahead()};
    return {};
  }
  case fb::Instruction::Add: {
    const fb::Add &i = *step.instruction_as_Add();
    value = AddInstruction{i.a(), i.b(), i.dst(), i.scale()};
    return {};
  }
  case fb::Instruction::GateRows: {
    const fb::GateRows &i = *step.instruction_as_GateRows();
    value = GateRowsInstruction{i.src(), i.gate(), i.dst()};
    return {};
  }
  case fb::Instruction::Head: {
    const fb::Head &i = *step.instruction_as_Head();
    value = HeadInstruction{i.src(), i.weight(), i.bias(), i.scale()};
    return {};
  }
  case fb::Instruction::NONE:
    break;
  }
  return invalidInput("unknown instruction ", uint32_t(step.instruction_type()),
                      ", this reads 1 to ", uint32_t(fb::Instruction::MAX));
}

Status Decoder::decodeProgram(const fb::Program &program, Program &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*program.name(), value.name));
  value.arenaBytesPerToken = program.arena_bytes_per_token();
  MOERT_RETURN_IF_ERROR(decodeEach(
      *program.buffers(), sizeof(fb::Buffer), value.buffers, "buffer",
      [this](const fb::Buffer &buffer, Buffer &out) {
        out = {{}, buffer.width(), buffer.group(), buffer.offset(), buffer.bytes_per_token()};
        return decodeEnum(buffer.kind(), BufferKind::kQuantized, "buffer kind", out.kind);
      }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*program.steps(), sizeof(uint32_t), value.instructions, "instruction",
                 [this](const fb::Step &step, Instruction &out) { return decodeStep(step, out); }));
  return decodeScalars(*program.layers(), value.layers);
}

Status Decoder::decodePlan(const fb::Plan &plan, Plan &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*plan.name(), value.name));
  value.budgetBytes = plan.budget_bytes();
  value.prefillChunk = plan.prefill_chunk();
  value.contextTokens = plan.context_tokens();
  value.transitPages = plan.transit_pages();
  return decodeScalars(*plan.quota_pages(), value.quotaPages);
}

Status Decoder::decodePairs(const flatbuffers::Vector<flatbuffers::Offset<fb::Provenance>> &pairs,
                            std::vector<std::pair<std::string, std::string>> &values,
                            const char *what) {
  return decodeEach(pairs, sizeof(uint32_t), values, what,
                    [this](const fb::Provenance &in, std::pair<std::string, std::string> &out) {
                      MOERT_RETURN_IF_ERROR(decodeString(*in.key(), out.first));
                      return decodeString(*in.value(), out.second);
                    });
}

Status Decoder::decodeMeasuredText(const fb::MeasuredText &text, MeasuredText &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*text.name(), value.name));
  value.hash = text.hash();
  value.bytes = text.bytes();
  MOERT_RETURN_IF_ERROR(decodeScalars(*text.windows(), value.windows));
  MOERT_RETURN_IF_ERROR(decodeScalars(*text.reference_nats(), value.referenceNats));
  if (!text.reference_points())
    return {};
  return decodeScalars(*text.reference_points(), value.referencePoints);
}

Status Decoder::decodeMeasured(const fb::Measured &measured, Measured &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*measured.metric(), value.metric));
  MOERT_RETURN_IF_ERROR(decodeString(*measured.solver(), value.solver));
  MOERT_RETURN_IF_ERROR(decodeString(*measured.quantizer(), value.quantizer));
  MOERT_RETURN_IF_ERROR(decodeFlag(measured.is_set_aside(), "is_set_aside", value.isSetAside));
  value.target = measured.target();
  value.loss = measured.loss();
  value.upperBound = measured.upper_bound();
  value.klNats = measured.kl_nats();
  value.topDisagreement = measured.top_disagreement();
  value.looks = measured.looks();
  value.windowTokens = measured.window_tokens();
  value.measurements = measured.measurements();
  value.windowsPlayed = measured.windows_played();
  value.calibrationTokens = measured.calibration_tokens();
  auto decodeText = [this](const fb::MeasuredText &in, MeasuredText &out) {
    return decodeMeasuredText(in, out);
  };
  MOERT_RETURN_IF_ERROR(decodeEach(*measured.calibration_texts(), sizeof(uint32_t),
                                   value.calibrationTexts, "calibration text", decodeText));
  MOERT_RETURN_IF_ERROR(decodeEach(*measured.acceptance_texts(), sizeof(uint32_t),
                                   value.acceptanceTexts, "acceptance text", decodeText));
  if (!measured.item_options())
    return {};
  return decodePairs(*measured.item_options(), value.itemOptions, "item option");
}

// What was measured on items has a field of its own, which readers before 1.3 overlook: they would
// take the items for windows.
Status Decoder::decodeMeasured(const fb::Manifest &manifest) {
  const fb::Measured *onWindows = manifest.measured(), *onItems = manifest.measured_on_items();
  if (!onWindows && !onItems)
    return {};
  if (onWindows && onItems)
    return invalidInput("both on windows and on items, expected one of the two");
  Measured &value = artifact.measured.emplace();
  MOERT_RETURN_IF_ERROR(decodeMeasured(onItems ? *onItems : *onWindows, value));
  if (onItems && !value.isOnItems())
    return invalidInput("windows of ", value.windowTokens, " tokens, expected items, which have 0");
  if (onWindows && value.isOnItems())
    return invalidInput("windows of 0 tokens, expected at least 2");
  return {};
}

Status Decoder::decode(const fb::Manifest &manifest) {
  artifact.pageBytes = manifest.page_bytes();
  MOERT_RETURN_IF_ERROR(decodeModel(*manifest.model()).withContext("model"));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.residents(), sizeof(uint32_t), artifact.residents, "resident weight",
                 [this](const auto &in, auto &out) { return decodeResident(in, out); }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.moe_layers(), sizeof(uint32_t), artifact.moeLayers, "MoE layer",
                 [this](const auto &in, auto &out) { return decodeMoeLayer(in, out); }));
  MOERT_RETURN_IF_ERROR(decodeEach(*manifest.kv_slots(), sizeof(fb::KvSlot), artifact.kvSlots,
                                   "KV slot", [](const fb::KvSlot &in, KvSlot &out) {
                                     out = {in.kv_heads(), in.key_dim(), in.value_dim()};
                                     return Status();
                                   }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.ropes(), sizeof(uint32_t), artifact.ropes, "rope",
                 [this](const auto &in, auto &out) { return decodeRope(in, out); }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.programs(), sizeof(uint32_t), artifact.programs, "program",
                 [this](const auto &in, auto &out) { return decodeProgram(in, out); }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.plans(), sizeof(uint32_t), artifact.plans, "plan",
                 [this](const auto &in, auto &out) { return decodePlan(in, out); }));
  MOERT_RETURN_IF_ERROR(decodeMeasured(manifest).withContext("measured"));
  return decodePairs(*manifest.provenance(), artifact.provenance, "provenance");
}

} // namespace

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
  return Decoder(bytes.size(), artifact).decode(*fb::GetManifest(data));
}

} // namespace moert
