// The contents of a .moe file as plain data: the reader fills it in after checking it, the writer
// takes it, the engine and the compiler work with it. FlatBuffers and raw bytes stay inside
// runtime/format. docs/format.md documents the file itself.
//
// Everything in an Artifact that was read is consistent: every index is in range, every size
// follows from the shapes, every instruction's operands have the kinds and widths that it needs.
#pragma once

#include "runtime/base/Origin.h"
#include "runtime/format/KvLayout.h"
#include "runtime/format/Schedule.h"
#include "runtime/format/WeightLayout.h"
#include "runtime/policy/Plan.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace moert {

/// A weight that is always in memory. Offsets count from the start of the resident section and are
/// multiples of kResidentAlignment.
struct ResidentWeight {
  std::string name; // The tensor's name in the checkpoint, for messages.
  MatrixShape shape;
  WeightFormat format;
  uint64_t offset = 0;
  uint64_t bytes = 0; // layoutOf(shape, format).bytes
  bool operator==(const ResidentWeight &) const = default;
};

constexpr uint64_t kResidentAlignment = kRegionAlignment;

/// A contiguous part of a record. Slice 0 alone is the expert at its lowest width; each further one
/// refines the same matrices' codes by lower bits, or begins a separate copy of the expert
/// (WeightLayout.h).
struct Slice {
  ExpertFormat format;
  uint64_t offset = 0;       // From the record's first byte; a multiple of kSliceAlignment.
  uint64_t bytes = 0;        // With padding; a multiple of kSliceAlignment.
  uint64_t payloadBytes = 0; // Without padding: where the layer's matrices end.
  uint64_t checksum = 0;     // XXH3-64 of the payload.
  bool operator==(const Slice &) const = default;
};

constexpr uint64_t kSliceAlignment = 4096;

/// One expert: a contiguous range of the file. Any number of its first slices is the same expert at
/// a lower width; beyond its low copy, without the low copy's slices.
struct Expert {
  uint64_t fileOffset = 0; // From the file's first byte; a multiple of kSliceAlignment.
  uint64_t bytes = 0;      // The sum of its slices.
  std::vector<Slice> slices;
  bool operator==(const Expert &) const = default;
};

/// The formats of its slices, in their order.
std::vector<ExpertFormat> formatsOf(const Expert &expert);

/// Slices of its low copy; 0: all slices are nested.
uint16_t lowCopySlicesOf(const Expert &expert);

/// The slices that full precision uses: all but those of the low copy.
std::span<const Slice> fullSlicesOf(const Expert &expert);

/// Their bytes, with padding.
uint64_t fullBytesOf(const Expert &expert);

/// Where a slice ends in its record is a multiple of this. A low copy fills whole pages of the
/// cache, so that no page holds bytes of both copies. Pages of 0 bytes: not chosen yet.
uint64_t endAlignmentOf(const Expert &expert, size_t slice, uint32_t pageBytes);

/// The parts of an expert, in the order in which a slice stores them, each from a multiple of
/// kRegionAlignment after the slice's start.
enum class ExpertPart : uint8_t { kGate = 0, kUp = 1, kDown = 2 };
constexpr size_t kExpertParts = 3;

/// The part's own format.
inline const WeightFormat &formatOf(const ExpertFormat &format, ExpertPart part) {
  return part == ExpertPart::kDown ? format.down : format.gateUp;
}

/// The part's own formats, slice by slice.
std::vector<WeightFormat> formatsOf(std::span<const Slice> slices, ExpertPart part);

struct ExpertMatrix {
  ExpertPart part = ExpertPart::kGate;
  MatrixShape shape;
  bool operator==(const ExpertMatrix &) const = default;
};

/// A layer with routed experts, all of one shape.
struct MoeLayer {
  uint32_t layer = 0; // Number of the model's layer, from 0.
  GluActivation activation;
  uint32_t topK = 1; // Experts that a token uses, in every program.
  std::vector<ExpertMatrix> matrices;
  std::vector<Expert> experts;
  bool operator==(const MoeLayer &) const = default;
};

/// Keys and values of one attention, per token and head. With valueDim 0, values are kept in keys:
/// a head's value is the last elements of its key, as many as the attention's result has per head.
struct KvSlot {
  uint32_t kvHeads = 0;
  uint32_t keyDim = 0;
  uint32_t valueDim = 0;
  KvKind kind = KvKind::kF32; // As the cache stores both.

  uint64_t keyRowBytes() const { return kvRowBytes(kind, keyDim); }
  uint64_t valueRowBytes() const { return kvRowBytes(kind, valueDim); }
  /// One token takes so many.
  uint64_t bytes() const { return kvHeads * (keyRowBytes() + valueRowBytes()); }
  bool operator==(const KvSlot &) const = default;
};

/// A matrix of f32 that a sequence carries from token to token, whatever the context's length: the
/// last inputs of a convolution, or the memory of a recurrence. It is 0 before the first token.
struct StateSlot {
  uint32_t rows = 0;
  uint32_t width = 0;

  template <typename Self, typename Visit> static void describe(Self &slot, Visit &&visit) {
    visit("rows"_field, slot.rows);
    visit("width"_field, slot.width);
  }
  bool operator==(const StateSlot &) const = default;
};

/// Elements of a value, which are those of a head's result.
inline uint32_t valueDimOf(const KvSlot &slot, const Program &program,
                           const AttentionOperands &attend) {
  return slot.valueDim != 0 ? slot.valueDim
                            : program.buffers[size_t(attend.dst)].width / attend.heads;
}

enum class RopeStyle : uint8_t { kHalf = 0, kInterleaved = 1 };

/// The rotation of sequences of at most originalPositions tokens and, where that is not 0, the
/// rotation of longer ones, which has as many frequencies.
struct Rope {
  RopeStyle style = RopeStyle::kHalf;
  float attentionFactor = 1;
  std::vector<float> inverseFrequencies;
  uint32_t originalPositions = 0; // 0: all sequences have the same rotation.
  float longAttentionFactor = 0;
  std::vector<float> longInverseFrequencies;
  bool operator==(const Rope &) const = default;
};

struct ModelInfo {
  std::string modelType;
  uint32_t vocabularySize = 0;
  uint32_t hiddenSize = 0;
  uint32_t layers = 0;
  uint32_t maxPositions = 0;
  std::optional<int32_t> bosToken;
  std::vector<int32_t> eosTokens;

  template <typename Self, typename Visit> static void describe(Self &model, Visit &&visit) {
    visit("model_type"_field, model.modelType);
    // Token ids are int32.
    visit("vocabulary_size"_field, model.vocabularySize, within(1, INT32_MAX));
    visit("hidden_size"_field, model.hiddenSize, within(1, 1 << 24));
    visit("layers"_field, model.layers, within(1, 65536));
    visit("max_positions"_field, model.maxPositions, within(1, kMaxContextTokens));
    visit("bos_token"_field, model.bosToken);
    visit("eos_tokens"_field, model.eosTokens);
  }
  bool operator==(const ModelInfo &) const = default;
};

/// A text that was used when the widths were chosen.
struct MeasuredText {
  std::string name;                  // File name without its directory.
  uint64_t hash = 0;                 // XXH3-64 of its bytes.
  uint64_t bytes = 0;                // Size of the file.
  std::vector<uint32_t> windows;     // Scored windows (or items), counted from 0, ascending;
                                     // none for calibration texts.
  std::vector<double> referenceNats; // Per scored window: -ln p of the reference, summed over all
                                     // tokens but the first, given the tokens before each.
  std::vector<double> referencePoints = {}; // Per scored item: the points of the reference's
                                            // answer, 0 to 1.
  // Acceptance texts have, where it is defined, the loss on this text alone, its units, and the
  // standard deviation of a unit's loss.
  std::optional<double> loss = {};
  uint64_t units = 0;
  std::optional<double> unitSpread = {};

  template <typename Self, typename Visit> static void describe(Self &text, Visit &&visit) {
    visit("name"_field, text.name);
    visit("hash"_field, text.hash, kHash);
    visit("bytes"_field, text.bytes);
    visit("windows"_field, text.windows);
    visit("reference_nats"_field, text.referenceNats, kAtLeast0);
    visit("reference_points"_field, text.referencePoints, kFraction.optional().sparse());
    visit("loss"_field, text.loss);
    visit("units"_field, text.units, kAny.sparse());
    visit("unit_spread"_field, text.unitSpread, kAtLeast0);
  }
  bool operator==(const MeasuredText &) const = default;
};

/// A width assignment that the search measured as a whole, on its own text.
struct MeasuredCandidate {
  std::string solver; // Who proposed them.
  uint64_t expertBytes = 0, residentBytes = 0;
  double klNats = 0;
  std::optional<double> loss = {};          // Absent for a metric of items.
  std::optional<double> expectedBound = {}; // Estimated bound of an acceptance test.
  std::optional<double> tokenNs = {};       // Forecast, where a device and a budget were given.
  bool isChosen = false;                    // The artifact has these widths.

  template <typename Self, typename Visit> static void describe(Self &candidate, Visit &&visit) {
    visit("solver"_field, candidate.solver);
    visit("expert_bytes"_field, candidate.expertBytes);
    visit("resident_bytes"_field, candidate.residentBytes);
    visit("kl_nats"_field, candidate.klNats);
    visit("loss"_field, candidate.loss);
    visit("expected_bound"_field, candidate.expectedBound);
    visit("token_ns"_field, candidate.tokenNs, kAtLeast0);
    visit("is_chosen"_field, candidate.isChosen);
  }
  bool operator==(const MeasuredCandidate &) const = default;
};

/// Measurements made when the experts' widths were chosen: the artifact against its reference, the
/// same checkpoint compiled at `source`. For reports, and for measuring the loss again without the
/// reference; no token depends on it. Losses are in the metric's unit (SampleScore.h): relative for
/// perplexity, 0.02 for 2%.
struct Measured {
  std::string metric;         // As `moert eval --metric` spells it.
  double target = 0;          // The loss that was allowed; 0: the quantile alone has a target.
  double loss = 0;            // On the acceptance windows or items.
  double upperBound = 0;      // One-sided bound of the loss, at `confidence`.
  double klNats = 0;          // KL(reference || artifact), nats; of a perplexity: the search's.
  double topDisagreement = 0; // Fraction of scored tokens, 0 to 1: 1 - top-1 agreement.
  double confidence = 0.95; // This test's confidence. With it, all acceptance tests of these texts
                            // together keep their targets with 95% (docs/accuracy.md).
  uint64_t units = 0;      // Independent observations: documents, or windows of packed ones; items.
  uint64_t documents = 0;  // In the acceptance windows; for items, as many as units.
  double unitSpread = 0;   // Standard deviation of a unit's loss, in the metric's unit.
  bool isSetAside = false; // Acceptance windows were set aside from the calibration texts.
  uint32_t windowTokens = 0; // Per acceptance window; 0: it was accepted on items (ItemFile.h).
  std::string solver;        // Solver that chose the widths.
  std::string quantizer;
  uint32_t measurements = 0;      // By the search: probes, whole measurements, acceptance tests.
  uint64_t windowsEvaluated = 0;  // Windows and items that the reference or a candidate executed,
                                  // counted per execution; without calibration.
  uint64_t calibrationTokens = 0; // Tokens used for calibration.
  std::vector<MeasuredText> calibrationTexts;
  std::vector<MeasuredText> acceptanceTexts; // In the order in which their windows were resampled.
  /// How items were put to the models, as options of `moert eval`; values as in JSON.
  std::vector<std::pair<std::string, std::string>> itemOptions = {};
  std::vector<MeasuredCandidate> candidates = {}; // In the order in which they were measured.
  std::optional<QuantileBound> quantile = {};     // Absent for items and with too few units.

  bool isOnItems() const { return windowTokens == 0; }

  template <typename Self, typename Visit> static void describe(Self &measured, Visit &&visit) {
    visit("metric"_field, measured.metric);
    visit("target"_field, measured.target, kAtLeast0);
    // An artifact may score better than its reference; the divergence is negative only by rounding.
    visit("loss"_field, measured.loss);
    visit("upper_bound"_field, measured.upperBound);
    visit("kl_nats"_field, measured.klNats);
    visit("top_disagreement"_field, measured.topDisagreement, kFraction);
    visit("confidence"_field, measured.confidence, kConfidence);
    visit("units"_field, measured.units);
    visit("documents"_field, measured.documents);
    visit("unit_spread"_field, measured.unitSpread, kAtLeast0);
    visit("is_set_aside"_field, measured.isSetAside);
    visit("window_tokens"_field, measured.windowTokens, kAny.sparse());
    visit("solver"_field, measured.solver);
    visit("quantizer"_field, measured.quantizer);
    visit("measurements"_field, measured.measurements);
    visit("windows_evaluated"_field, measured.windowsEvaluated);
    visit("calibration_tokens"_field, measured.calibrationTokens);
    visit("calibration_texts"_field, measured.calibrationTexts);
    visit("acceptance_texts"_field, measured.acceptanceTexts);
    visit("item_options"_field, measured.itemOptions, kAny.optional().sparse());
    visit("candidates"_field, measured.candidates, kAny.optional());
    visit("quantile"_field, measured.quantile);
  }
  bool operator==(const Measured &) const = default;
};

/// What the artifact lost on a few windows that the checkpoint wrote itself: a hint for people,
/// without a bound, where no accuracy target was asked for.
struct QuickLoss {
  double loss = 0;            // Relative, of perplexity.
  double klNats = 0;          // KL(reference || artifact), nats per scored token.
  double topDisagreement = 0; // Fraction of scored tokens, 0 to 1.
  uint32_t windows = 0, windowTokens = 0;

  template <typename Self, typename Visit> static void describe(Self &quick, Visit &&visit) {
    visit("loss"_field, quick.loss);
    visit("kl_nats"_field, quick.klNats);
    visit("top_disagreement"_field, quick.topDisagreement, kFraction);
    visit("windows"_field, quick.windows, within(1, UINT32_MAX));
    visit("window_tokens"_field, quick.windowTokens, within(2, kMaxContextTokens));
  }
  bool operator==(const QuickLoss &) const = default;
};

/// Memory that it takes; it stays resident with the rest of an artifact's description.
uint64_t memoryBytesOf(const Measured &measured);

/// A Jinja template that renders a conversation as the model's input.
struct NamedTemplate {
  std::string name; // "default", "tool_use".
  std::string text;

  template <typename Self, typename Visit> static void describe(Self &named, Visit &&visit) {
    visit("name"_field, named.name);
    visit("text"_field, named.text);
  }
  bool operator==(const NamedTemplate &) const = default;
};

/// How the checkpoint's authors have conversations rendered.
struct Chat {
  std::vector<NamedTemplate> templates; // By ascending name; may be empty.
  /// Special tokens by the names that templates use: "bos_token", "<s>". By ascending name.
  std::vector<std::pair<std::string, std::string>> specialTokens;

  template <typename Self, typename Visit> static void describe(Self &chat, Visit &&visit) {
    visit("templates"_field, chat.templates);
    visit("special_tokens"_field, chat.specialTokens);
  }
  bool operator==(const Chat &) const = default;
};

constexpr float kMaxDefaultTemperature = 100;

/// How the checkpoint's authors sample (generation_config.json). Absent: not stated.
struct SamplingDefaults {
  std::optional<bool> doSample = {};
  std::optional<float> temperature = {};
  std::optional<uint32_t> topK = {};
  std::optional<float> topP = {}, minP = {}, repetitionPenalty = {};

  template <typename Self, typename Visit> static void describe(Self &sampling, Visit &&visit) {
    visit("do_sample"_field, sampling.doSample);
    visit("temperature"_field, sampling.temperature, within(0, kMaxDefaultTemperature));
    visit("top_k"_field, sampling.topK);
    visit("top_p"_field, sampling.topP, kFraction);
    visit("min_p"_field, sampling.minP, kFraction);
    visit("repetition_penalty"_field, sampling.repetitionPenalty, within(0.01f, 100));
  }
  bool operator==(const SamplingDefaults &) const = default;
};

/// Offsets and sizes of the raw sections in the file; 0 bytes: absent. Checksums are XXH3-64 of the
/// section.
struct ArtifactSections {
  uint64_t residentOffset = 0, residentBytes = 0, residentChecksum = 0;
  uint64_t tokenizerOffset = 0, tokenizerBytes = 0, tokenizerChecksum = 0;
  /// What plans are made from; a run does not read it (compiler/profile/TraceSection.h).
  uint64_t traceOffset = 0, traceBytes = 0, traceChecksum = 0;
  /// The activation-path tables of all MoE layers (runtime/experts/PathTable.h).
  uint64_t pathsOffset = 0, pathsBytes = 0, pathsChecksum = 0;
  uint64_t recordsOffset = 0, recordsBytes = 0;
  uint64_t manifestOffset = 0, manifestBytes = 0; // Set by the reader only.
  uint64_t fileBytes = 0;
  bool operator==(const ArtifactSections &) const = default;
};

struct Artifact : ArtifactSections {
  uint16_t majorVersion = 0;
  uint16_t minorVersion = 0;
  ModelInfo model;
  uint32_t pageBytes = 0; // Page size of the expert cache: a power of two, 4 KiB to 1 MiB.
  std::vector<ResidentWeight> residents;
  std::vector<MoeLayer> moeLayers;
  std::vector<KvSlot> kvSlots;
  std::vector<StateSlot> stateSlots;
  std::vector<Rope> ropes;
  std::vector<Program> programs;
  std::vector<Plan> plans; // Largest budget first.
  std::vector<std::pair<std::string, std::string>> provenance;
  std::optional<Measured> measured; // Where an accuracy target chose the widths.
  std::optional<QuickLoss> quickLoss;
  std::optional<Chat> chat;
  std::optional<SamplingDefaults> sampling;
  bool operator==(const Artifact &) const = default;
};

/// Bytes of the payloads that full precision reads, without low copies: the "expert bytes" to which
/// a budget of "25%" refers.
uint64_t expertPayloadBytes(const Artifact &artifact);

/// Bytes of the payloads of all low copies.
uint64_t lowCopyPayloadBytes(const Artifact &artifact);
bool hasLowCopies(const Artifact &artifact);

/// Bytes of all records, with padding, without low copies.
uint64_t fullBytesOf(const Artifact &artifact);

/// Offset of each matrix of a layer inside a slice of the given format, and the payload's size. A
/// matrix of which the slice holds nothing has the offset of what follows it.
struct SliceLayout {
  std::vector<uint64_t> matrixOffsets;
  uint64_t payloadBytes = 0;
};
Result<SliceLayout> sliceLayoutOf(const MoeLayer &layer, const ExpertFormat &format);

/// Bytes that each of a layer's experts takes at full precision.
std::vector<uint64_t> recordBytesOf(const MoeLayer &layer);

/// The activation group in which low copies of the layer's experts take their inputs; 0 if it has
/// none. One for all of them.
uint32_t lowCopyGroupOf(const MoeLayer &layer);

/// How many experts each MoE layer has.
std::vector<uint32_t> layerExpertsOf(const Artifact &artifact);

/// The images that a vision model takes; null for a model of text.
const PatchesInstruction *imagesOf(const Artifact &artifact);

} // namespace moert
