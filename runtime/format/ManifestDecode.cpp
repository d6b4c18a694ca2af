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

Status ManifestDecoder::decodeModel(const fb::ModelInfo &model) {
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
  MOERT_RETURN_IF_ERROR(
      decodeEach(*expert.slices(), sizeof(fb::Slice), value.slices, "slice", decodeSlice));
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
  MOERT_RETURN_IF_ERROR(decodeEach(*expert.down_formats(), sizeof(fb::WeightFormat), formats,
                                   "format of down",
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

Status ManifestDecoder::decodeRules(const fb::Plan &plan, CacheRules &value) {
  MOERT_RETURN_IF_ERROR(decodeEnum(plan.eviction(), EvictionPolicy(kEvictionPolicies - 1),
                                   "eviction policy", value.eviction));
  if (const fb::EvictionWeights *weights = plan.eviction_weights())
    value.weights = {weights->recency(), weights->frequency(), weights->full_frequency(),
                     weights->nearness()};
  if (const fb::ExchangeRule *exchange = plan.exchange())
    value.exchange = {exchange->every_tokens(), exchange->after_tokens(), exchange->fade_shift()};
  StoredSharing sharing = {};
  MOERT_RETURN_IF_ERROR(
      decodeEnum(plan.sharing(), StoredSharing::kTwoPools, "cache sharing", sharing));
  value.sharing = CacheSharing(std::min(sharing, StoredSharing::kOnePool));
  value.upperPart = plan.upper_part();
  if ((value.upperPart > 0) != (sharing == StoredSharing::kTwoPools))
    return invalidInput("cache sharing ", uint32_t(sharing), " with a part of ", value.upperPart,
                        " for upper slices, expected one with ", uint32_t(StoredSharing::kTwoPools),
                        " only");
  return decodeEnum(plan.survival(), PromptSurvival::kPins, "prompt survival", value.survival);
}

Status ManifestDecoder::decodeMiss(const fb::MissRule &miss, Plan &plan) {
  StoredMissAction action = {};
  MOERT_RETURN_IF_ERROR(
      decodeEnum(miss.action(), StoredMissAction::kLowerPromptsAlone, "miss rule", action));
  const bool isAlone = action > StoredMissAction::kLowerPrompts;
  if (isAlone)
    action = action == StoredMissAction::kLowerAlone ? StoredMissAction::kLower
                                                     : StoredMissAction::kLowerPrompts;
  plan.miss = {MissAction(action), miss.low_slices(), miss.wait_up_to(), miss.skip_beyond(),
               miss.substitute_within()};
  plan.rules.baseSlices = isAlone ? plan.miss.baseSlices() : uint8_t(0);
  return {};
}

template <typename Stored, typename Value>
static void copyOptional(flatbuffers::Optional<Stored> stored, std::optional<Value> &value) {
  if (stored)
    value = *stored;
}

static void decodeQuantile(const fb::QuantileBound *quantile, std::optional<QuantileBound> &value) {
  if (!quantile)
    return;
  value = {quantile->fraction(), quantile->upper_bound()};
  copyOptional(quantile->target(), value->target);
}

Status ManifestDecoder::decodePlanLoss(const fb::PlanLoss &loss, PlanLoss &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*loss.metric(), value.metric));
  value.loss = loss.loss();
  value.upperBound = loss.upper_bound();
  value.confidence = loss.confidence();
  value.klNats = loss.kl_nats();
  value.topDisagreement = loss.top_disagreement();
  value.units = loss.units();
  value.documents = loss.documents();
  value.windows = loss.windows();
  value.windowTokens = loss.window_tokens();
  decodeQuantile(loss.quantile(), value.quantile);
  return decodeEach(*loss.texts(), sizeof(uint32_t), value.texts, "text",
                    [this](const fb::PlanText &in, PlanText &out) {
                      out.hash = in.hash();
                      out.bytes = in.bytes();
                      return decodeString(*in.name(), out.name);
                    });
}

Status ManifestDecoder::decodeStart(const fb::LayerStart &start, LayerStart &value) {
  MOERT_RETURN_IF_ERROR(decodeScalars(*start.experts(), value.experts));
  return decodeScalars(*start.uses(), value.uses);
}

Status ManifestDecoder::decodeForecast(const fb::Forecast &forecast, Forecast &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*forecast.device(), value.device));
  value.threads = forecast.threads();
  value.tokens = forecast.tokens();
  value.traceTokens = forecast.trace_tokens();
  value.tokenNs = forecast.token_ns();
  value.medianNs = forecast.median_ns();
  value.slowNs = forecast.slow_ns();
  value.hitRate = forecast.hit_rate();
  value.readyRate = forecast.ready_rate();
  value.bytesPerToken = forecast.bytes_read_per_token();
  value.prefetchRecall = forecast.prefetch_recall();
  value.prefetchPrecision = forecast.prefetch_precision();
  value.leastBytesPerToken = forecast.least_bytes_per_token();
  value.boundNs = forecast.bound_ns();
  return decodeEnum(forecast.origin(), Origin::kAssumed, "origin", value.origin);
}

Status ManifestDecoder::decodeReason(const fb::PlanReason &reason, PlanReason &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*reason.decision(), value.decision));
  MOERT_RETURN_IF_ERROR(decodeString(*reason.value(), value.value));
  MOERT_RETURN_IF_ERROR(decodeString(*reason.reason(), value.reason));
  return decodeEnum(reason.origin(), Origin::kAssumed, "origin", value.origin);
}

Status ManifestDecoder::decodePlan(const fb::Plan &plan, Plan &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*plan.name(), value.name));
  value.budgetBytes = plan.budget_bytes();
  value.prefillChunk = plan.prefill_chunk_tokens();
  value.contextTokens = plan.context_tokens();
  value.stagingPages = plan.staging_pages();
  MOERT_RETURN_IF_ERROR(decodeScalars(*plan.quota_pages(), value.quotaPages));
  MOERT_RETURN_IF_ERROR(decodeString(*plan.preset(), value.preset));
  MOERT_RETURN_IF_ERROR(decodeRules(plan, value.rules));
  value.startTokens = plan.start_tokens();
  if (plan.pinned())
    MOERT_RETURN_IF_ERROR(decodeEach(
        *plan.pinned(), sizeof(uint32_t), value.pinned, "pin list",
        [this](const auto &in, auto &out) { return decodeScalars(*in.experts(), out); }));
  if (plan.start())
    MOERT_RETURN_IF_ERROR(
        decodeEach(*plan.start(), sizeof(uint32_t), value.start, "start list",
                   [this](const auto &in, auto &out) { return decodeStart(in, out); }));
  if (plan.prefetches())
    MOERT_RETURN_IF_ERROR(decodeEach(
        *plan.prefetches(), sizeof(fb::PrefetchRule), value.prefetches, "prefetch rule",
        [this](const fb::PrefetchRule &in, PrefetchRule &out) {
          out = {{}, in.ahead(), in.candidates(), in.reads(), in.min_probability()};
          return decodeEnum(in.predictor(), Predictor::kAdaptiveGate, "predictor", out.predictor);
        }));
  if (plan.forecast())
    MOERT_RETURN_IF_ERROR(
        decodeForecast(*plan.forecast(), value.forecast.emplace()).withContext("forecast"));
  if (plan.expert_norms())
    MOERT_RETURN_IF_ERROR(
        decodeEach(*plan.expert_norms(), sizeof(uint32_t), value.expertNorms, "list of norms",
                   [this](const auto &in, auto &out) { return decodeScalars(*in.norms(), out); }));
  if (plan.miss())
    MOERT_RETURN_IF_ERROR(decodeMiss(*plan.miss(), value));
  if (plan.loss())
    MOERT_RETURN_IF_ERROR(decodePlanLoss(*plan.loss(), value.loss.emplace()).withContext("loss"));
  if (!plan.reasons())
    return {};
  return decodeEach(*plan.reasons(), sizeof(uint32_t), value.reasons, "reason",
                    [this](const auto &in, auto &out) { return decodeReason(in, out); });
}

Status
ManifestDecoder::decodePairs(const flatbuffers::Vector<flatbuffers::Offset<fb::Provenance>> &pairs,
                             std::vector<std::pair<std::string, std::string>> &values,
                             const char *what) {
  return decodeEach(pairs, sizeof(uint32_t), values, what,
                    [this](const fb::Provenance &in, std::pair<std::string, std::string> &out) {
                      MOERT_RETURN_IF_ERROR(decodeString(*in.key(), out.first));
                      return decodeString(*in.value(), out.second);
                    });
}

Status ManifestDecoder::decodeMeasuredText(const fb::MeasuredText &text, MeasuredText &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*text.name(), value.name));
  value.hash = text.hash();
  value.bytes = text.bytes();
  MOERT_RETURN_IF_ERROR(decodeScalars(*text.windows(), value.windows));
  MOERT_RETURN_IF_ERROR(decodeScalars(*text.reference_nats(), value.referenceNats));
  copyOptional(text.loss(), value.loss);
  value.units = text.units();
  copyOptional(text.unit_spread(), value.unitSpread);
  if (!text.reference_points())
    return {};
  return decodeScalars(*text.reference_points(), value.referencePoints);
}

Status ManifestDecoder::decodeCandidate(const fb::MeasuredCandidate &candidate,
                                        MeasuredCandidate &value) {
  value.expertBytes = candidate.expert_bytes();
  value.residentBytes = candidate.resident_bytes();
  value.klNats = candidate.kl_nats();
  copyOptional(candidate.loss(), value.loss);
  copyOptional(candidate.expected_bound(), value.expectedBound);
  copyOptional(candidate.token_ns(), value.tokenNs);
  MOERT_RETURN_IF_ERROR(decodeFlag(candidate.is_chosen(), "is_chosen", value.isChosen));
  return decodeString(*candidate.solver(), value.solver);
}

Status ManifestDecoder::decodeMeasured(const fb::Measured &measured, Measured &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*measured.metric(), value.metric));
  MOERT_RETURN_IF_ERROR(decodeString(*measured.solver(), value.solver));
  MOERT_RETURN_IF_ERROR(decodeString(*measured.quantizer(), value.quantizer));
  MOERT_RETURN_IF_ERROR(decodeFlag(measured.is_set_aside(), "is_set_aside", value.isSetAside));
  value.target = measured.target();
  value.loss = measured.loss();
  value.upperBound = measured.upper_bound();
  value.klNats = measured.kl_nats();
  value.topDisagreement = measured.top_disagreement();
  value.confidence = measured.confidence();
  value.units = measured.units();
  value.documents = measured.documents();
  value.unitSpread = measured.unit_spread();
  value.windowTokens = measured.window_tokens();
  decodeQuantile(measured.quantile(), value.quantile);
  value.measurements = measured.measurements();
  value.windowsEvaluated = measured.windows_evaluated();
  value.calibrationTokens = measured.calibration_tokens();
  auto decodeText = [this](const fb::MeasuredText &in, MeasuredText &out) {
    return decodeMeasuredText(in, out);
  };
  MOERT_RETURN_IF_ERROR(decodeEach(*measured.calibration_texts(), sizeof(uint32_t),
                                   value.calibrationTexts, "calibration text", decodeText));
  MOERT_RETURN_IF_ERROR(decodeEach(*measured.acceptance_texts(), sizeof(uint32_t),
                                   value.acceptanceTexts, "acceptance text", decodeText));
  if (measured.candidates())
    MOERT_RETURN_IF_ERROR(
        decodeEach(*measured.candidates(), sizeof(uint32_t), value.candidates, "candidate",
                   [this](const auto &in, auto &out) { return decodeCandidate(in, out); }));
  if (!measured.item_options())
    return {};
  return decodePairs(*measured.item_options(), value.itemOptions, "item option");
}

Status ManifestDecoder::decodeTemplate(const fb::ChatTemplate &named, NamedTemplate &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*named.name(), value.name));
  return decodeString(*named.text(), value.text);
}

Status ManifestDecoder::decodeChat(const fb::Chat &chat, Chat &value) {
  MOERT_RETURN_IF_ERROR(
      decodeEach(*chat.templates(), sizeof(uint32_t), value.templates, "chat template",
                 [this](const auto &in, auto &out) { return decodeTemplate(in, out); }));
  return decodePairs(*chat.special_tokens(), value.specialTokens, "special token");
}

Status ManifestDecoder::decodeSampling(const fb::SamplingDefaults &sampling,
                                       SamplingDefaults &value) {
  if (const flatbuffers::Optional<uint8_t> doSample = sampling.do_sample())
    MOERT_RETURN_IF_ERROR(decodeFlag(*doSample, "do_sample", value.doSample.emplace()));
  copyOptional(sampling.temperature(), value.temperature);
  copyOptional(sampling.top_k(), value.topK);
  copyOptional(sampling.top_p(), value.topP);
  copyOptional(sampling.min_p(), value.minP);
  copyOptional(sampling.repetition_penalty(), value.repetitionPenalty);
  return {};
}

Status ManifestDecoder::decode(const fb::Manifest &manifest) {
  artifact.pageBytes = manifest.page_bytes();
  MOERT_RETURN_IF_ERROR(decodeModel(*manifest.model()).withContext("model"));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.residents(), sizeof(uint32_t), artifact.residents, "resident weight",
                 [this](const auto &in, auto &out) { return decodeResident(in, out); }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.moe_layers(), sizeof(uint32_t), artifact.moeLayers, "MoE layer",
                 [this](const auto &in, auto &out) { return decodeMoeLayer(in, out); }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*manifest.kv_slots(), sizeof(fb::KvSlot), artifact.kvSlots, "KV slot",
                 [this](const fb::KvSlot &in, KvSlot &out) { return decodeKvSlot(in, out); }));
  if (manifest.state_slots())
    MOERT_RETURN_IF_ERROR(decodeEach(*manifest.state_slots(), sizeof(fb::StateSlot),
                                     artifact.stateSlots, "state slot",
                                     [](const fb::StateSlot &in, StateSlot &out) {
                                       out = {in.rows(), in.width()};
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
  if (manifest.measured())
    MOERT_RETURN_IF_ERROR(
        decodeMeasured(*manifest.measured(), artifact.measured.emplace()).withContext("measured"));
  if (manifest.chat())
    MOERT_RETURN_IF_ERROR(
        decodeChat(*manifest.chat(), artifact.chat.emplace()).withContext("chat"));
  if (manifest.sampling())
    MOERT_RETURN_IF_ERROR(
        decodeSampling(*manifest.sampling(), artifact.sampling.emplace()).withContext("sampling"));
  if (const fb::QuickLoss *quick = manifest.quick_loss())
    artifact.quickLoss = {quick->loss(), quick->kl_nats(), quick->top_disagreement(),
                          quick->windows(), quick->window_tokens()};
  return decodePairs(*manifest.provenance(), artifact.provenance, "provenance");
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
