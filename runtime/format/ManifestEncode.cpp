// An Artifact as FlatBuffers. FlatBufferBuilder needs vectors built from the leaves up; it gives
// the same bytes for the same calls.
#include "runtime/format/Manifest.h"

#include <artifact_generated.h>

#include <bit>
#include <cstring>

namespace moert {

namespace {

using Builder = flatbuffers::FlatBufferBuilder;
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

// The same, but an empty vector becomes an absent field.
template <typename Table, typename Element, typename Encode>
Offset<flatbuffers::Vector<Offset<Table>>>
encodeIfAny(Builder &builder, const std::vector<Element> &elements, Encode encode) {
  if (elements.empty())
    return 0;
  return encodeTables<Table>(builder, elements, encode);
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

Offset<fb::ModelInfo> encodeModel(Builder &builder, const ModelInfo &model) {
  auto type = builder.CreateString(model.modelType);
  auto eos = builder.CreateVector(model.eosTokens);
  flatbuffers::Optional<int32_t> bos = flatbuffers::nullopt;
  if (model.bosToken)
    bos = *model.bosToken;
  return fb::CreateModelInfo(builder, type, model.vocabularySize, model.hiddenSize, model.layers,
                             model.maxPositions, bos, eos);
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

Offset<fb::ExpertList> encodeExpertList(Builder &builder, const std::vector<uint32_t> &experts) {
  return fb::CreateExpertList(builder, builder.CreateVector(experts));
}

Offset<fb::LayerStart> encodeLayerStart(Builder &builder, const LayerStart &start) {
  auto experts = builder.CreateVector(start.experts);
  auto uses = builder.CreateVector(start.uses);
  return fb::CreateLayerStart(builder, experts, uses);
}

Offset<fb::Forecast> encodeForecast(Builder &builder, const Forecast &f) {
  auto device = builder.CreateString(f.device);
  return fb::CreateForecast(builder, device, f.threads, f.tokens, f.traceTokens, f.tokenNs,
                            f.medianNs, f.slowNs, f.hitRate, f.readyRate, f.bytesPerToken,
                            f.prefetchRecall, f.prefetchPrecision, f.leastBytesPerToken, f.boundNs,
                            uint8_t(f.origin));
}

Offset<fb::PlanReason> encodeReason(Builder &builder, const PlanReason &reason) {
  auto decision = builder.CreateString(reason.decision);
  auto value = builder.CreateString(reason.value);
  auto sentence = builder.CreateString(reason.reason);
  return fb::CreatePlanReason(builder, decision, value, sentence, uint8_t(reason.origin));
}

Offset<fb::PlanText> encodePlanText(Builder &builder, const PlanText &text) {
  auto name = builder.CreateString(text.name);
  return fb::CreatePlanText(builder, name, text.hash, text.bytes);
}

template <typename Stored, typename Value>
flatbuffers::Optional<Stored> encodeOptional(const std::optional<Value> &value) {
  if (!value)
    return flatbuffers::nullopt;
  return static_cast<Stored>(*value);
}

Offset<fb::QuantileBound> encodeQuantile(Builder &builder,
                                         const std::optional<QuantileBound> &quantile) {
  return quantile ? fb::CreateQuantileBound(builder, quantile->fraction, quantile->upperBound,
                                            encodeOptional<double>(quantile->target))
                  : Offset<fb::QuantileBound>();
}

Offset<fb::PlanLoss> encodePlanLoss(Builder &builder, const PlanLoss &loss) {
  auto metric = builder.CreateString(loss.metric);
  auto texts = encodeTables<fb::PlanText>(builder, loss.texts, encodePlanText);
  auto quantile = encodeQuantile(builder, loss.quantile);
  return fb::CreatePlanLoss(builder, metric, loss.loss, loss.upperBound, loss.confidence,
                            loss.klNats, loss.topDisagreement, loss.units, loss.documents,
                            loss.windows, loss.windowTokens, texts, quantile);
}

Offset<fb::ExpertNorms> encodeNorms(Builder &builder, const std::vector<uint32_t> &norms) {
  return fb::CreateExpertNorms(builder, builder.CreateVector(norms));
}

// Empty lists become absent fields.
Offset<fb::Plan> encodePlan(Builder &builder, const Plan &plan) {
  auto name = builder.CreateString(plan.name);
  auto quotas = builder.CreateVector(plan.quotaPages);
  auto preset = builder.CreateString(plan.preset);
  auto pinned = encodeIfAny<fb::ExpertList>(builder, plan.pinned, encodeExpertList);
  auto start = encodeIfAny<fb::LayerStart>(builder, plan.start, encodeLayerStart);
  std::vector<fb::PrefetchRule> rules;
  for (const PrefetchRule &rule : plan.prefetches)
    rules.emplace_back(uint8_t(rule.predictor), rule.ahead, rule.candidates, rule.reads,
                       rule.minProbability);
  Offset<flatbuffers::Vector<const fb::PrefetchRule *>> prefetches = 0;
  if (!rules.empty())
    prefetches = builder.CreateVectorOfStructs(rules);
  Offset<fb::Forecast> forecast = 0;
  if (plan.forecast)
    forecast = encodeForecast(builder, *plan.forecast);
  auto reasons = encodeIfAny<fb::PlanReason>(builder, plan.reasons, encodeReason);
  const EvictionWeights &parts = plan.rules.weights;
  const fb::EvictionWeights weights(parts.recency, parts.frequency, parts.fullFrequency,
                                    parts.nearness);
  Offset<fb::PlanLoss> loss = 0;
  if (plan.loss)
    loss = encodePlanLoss(builder, *plan.loss);
  const ExchangeRule &rule = plan.rules.exchange;
  const fb::ExchangeRule exchange(rule.everyTokens, rule.afterTokens, rule.fadeShift);
  auto norms = encodeIfAny<fb::ExpertNorms>(builder, plan.expertNorms, encodeNorms);
  auto action = StoredMissAction(plan.miss.action);
  if (plan.rules.baseSlices > 0)
    action = action == StoredMissAction::kLower ? StoredMissAction::kLowerAlone
                                                : StoredMissAction::kLowerPromptsAlone;
  const fb::MissRule miss(uint8_t(action), plan.miss.lowSlices, plan.miss.waitUpTo,
                          plan.miss.skipBeyond, plan.miss.substituteWithin);
  const auto sharing =
      plan.rules.upperPart > 0 ? StoredSharing::kTwoPools : StoredSharing(plan.rules.sharing);
  return fb::CreatePlan(
      builder, name, plan.budgetBytes, plan.prefillChunk, plan.contextTokens, plan.stagingPages,
      quotas, preset, uint8_t(plan.rules.eviction), uint8_t(sharing), uint8_t(plan.rules.survival),
      pinned, start, plan.startTokens, prefetches, forecast, reasons,
      plan.miss.isLossy() ? &miss : nullptr, loss, parts == EvictionWeights() ? nullptr : &weights,
      rule == ExchangeRule() ? nullptr : &exchange, norms, plan.rules.upperPart);
}

Offset<fb::Provenance> encodeProvenance(Builder &builder,
                                        const std::pair<std::string, std::string> &entry) {
  auto key = builder.CreateString(entry.first);
  auto value = builder.CreateString(entry.second);
  return fb::CreateProvenance(builder, key, value);
}

Offset<fb::MeasuredText> encodeMeasuredText(Builder &builder, const MeasuredText &text) {
  auto name = builder.CreateString(text.name);
  auto windows = builder.CreateVector(text.windows);
  auto nats = builder.CreateVector(text.referenceNats);
  Offset<flatbuffers::Vector<double>> points = 0; // Absent if there are none.
  if (!text.referencePoints.empty())
    points = builder.CreateVector(text.referencePoints);
  return fb::CreateMeasuredText(builder, name, text.hash, text.bytes, windows, nats, points,
                                encodeOptional<double>(text.loss), text.units,
                                encodeOptional<double>(text.unitSpread));
}

Offset<fb::MeasuredCandidate> encodeCandidate(Builder &builder, const MeasuredCandidate &of) {
  auto solver = builder.CreateString(of.solver);
  return fb::CreateMeasuredCandidate(builder, solver, of.expertBytes, of.residentBytes, of.klNats,
                                     encodeOptional<double>(of.loss),
                                     encodeOptional<double>(of.expectedBound),
                                     encodeOptional<double>(of.tokenNs), uint8_t(of.isChosen));
}

Offset<fb::Measured> encodeMeasured(Builder &builder, const Measured &m) {
  auto metric = builder.CreateString(m.metric);
  auto solver = builder.CreateString(m.solver);
  auto quantizer = builder.CreateString(m.quantizer);
  auto calibration =
      encodeTables<fb::MeasuredText>(builder, m.calibrationTexts, encodeMeasuredText);
  auto acceptance = encodeTables<fb::MeasuredText>(builder, m.acceptanceTexts, encodeMeasuredText);
  auto options = encodeIfAny<fb::Provenance>(builder, m.itemOptions, encodeProvenance);
  auto candidates = encodeIfAny<fb::MeasuredCandidate>(builder, m.candidates, encodeCandidate);
  auto quantile = encodeQuantile(builder, m.quantile);
  return fb::CreateMeasured(builder, metric, m.target, m.loss, m.upperBound, m.klNats,
                            m.topDisagreement, m.confidence, m.units, m.documents, m.unitSpread,
                            uint8_t(m.isSetAside), m.windowTokens, solver, quantizer,
                            m.measurements, m.windowsEvaluated, m.calibrationTokens, calibration,
                            acceptance, options, candidates, quantile);
}

Offset<fb::ChatTemplate> encodeTemplate(Builder &builder, const NamedTemplate &named) {
  auto name = builder.CreateString(named.name);
  auto text = builder.CreateString(named.text);
  return fb::CreateChatTemplate(builder, name, text);
}

Offset<fb::Chat> encodeChat(Builder &builder, const Chat &chat) {
  auto templates = encodeTables<fb::ChatTemplate>(builder, chat.templates, encodeTemplate);
  auto tokens = encodeTables<fb::Provenance>(builder, chat.specialTokens, encodeProvenance);
  return fb::CreateChat(builder, templates, tokens);
}

Offset<fb::SamplingDefaults> encodeSampling(Builder &builder, const SamplingDefaults &sampling) {
  return fb::CreateSamplingDefaults(
      builder, encodeOptional<uint8_t>(sampling.doSample),
      encodeOptional<float>(sampling.temperature), encodeOptional<uint32_t>(sampling.topK),
      encodeOptional<float>(sampling.topP), encodeOptional<float>(sampling.minP),
      encodeOptional<float>(sampling.repetitionPenalty));
}

} // namespace

std::vector<std::byte> encodeManifest(const Artifact &artifact) {
  Builder builder;
  auto model = encodeModel(builder, artifact.model);
  auto residents = encodeTables<fb::ResidentWeight>(builder, artifact.residents, encodeResident);
  auto layers = encodeTables<fb::MoeLayer>(builder, artifact.moeLayers, encodeMoeLayer);
  std::vector<fb::KvSlot> slots;
  for (const KvSlot &slot : artifact.kvSlots)
    slots.emplace_back(slot.kvHeads | uint32_t(slot.kind) << kKvKindShift, slot.keyDim,
                       slot.valueDim);
  auto slotsOffset = builder.CreateVectorOfStructs(slots);
  auto ropes = encodeTables<fb::Rope>(builder, artifact.ropes, encodeRope);
  auto programs = encodeTables<fb::Program>(builder, artifact.programs, encodeProgram);
  auto plans = encodeTables<fb::Plan>(builder, artifact.plans, encodePlan);
  auto provenance = encodeTables<fb::Provenance>(builder, artifact.provenance, encodeProvenance);
  Offset<fb::Measured> measured = 0; // An optional field that is absent.
  if (artifact.measured)
    measured = encodeMeasured(builder, *artifact.measured);
  std::vector<fb::StateSlot> states;
  for (const StateSlot &slot : artifact.stateSlots)
    states.emplace_back(slot.rows, slot.width);
  Offset<flatbuffers::Vector<const fb::StateSlot *>> statesOffset = 0;
  if (!states.empty())
    statesOffset = builder.CreateVectorOfStructs(states);
  Offset<fb::Chat> chat = 0;
  if (artifact.chat)
    chat = encodeChat(builder, *artifact.chat);
  Offset<fb::SamplingDefaults> sampling = 0;
  if (artifact.sampling)
    sampling = encodeSampling(builder, *artifact.sampling);
  Offset<fb::QuickLoss> quickLoss = 0;
  if (const auto &quick = artifact.quickLoss)
    quickLoss = fb::CreateQuickLoss(builder, quick->loss, quick->klNats, quick->topDisagreement,
                                    quick->windows, quick->windowTokens);
  builder.Finish(fb::CreateManifest(builder, model, artifact.pageBytes, residents, layers,
                                    slotsOffset, ropes, programs, plans, provenance, measured,
                                    statesOffset, chat, sampling, quickLoss),
                 fb::ManifestIdentifier());
  std::vector<std::byte> bytes(builder.GetSize());
  std::memcpy(bytes.data(), builder.GetBufferPointer(), bytes.size());
  return bytes;
}

} // namespace moert
