// The rules about everything but the programs (ValidateProgram.cpp). Fields are checked before they
// are used by a later rule; the order of the functions is the order of that dependence.
#include "runtime/format/Validate.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Utf8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <unordered_set>

namespace moert {

// Long enough for any name, short enough for a message.
constexpr size_t kMaxStringBytes = 65536;

// Text goes to terminals and into JSON: control characters could change the one, broken UTF-8 the
// other.
static bool isPlainText(std::string_view text) {
  while (!text.empty()) {
    auto first = static_cast<unsigned char>(text.front());
    Utf8Sequence sequence = nextUtf8(text);
    // U+0080 to U+009F, the second set of control characters, begin with C2 and end below A0.
    bool isControl =
        first < 0x20 || first == 0x7f ||
        (first == 0xc2 && sequence.length == 2 && static_cast<unsigned char>(text[1]) < 0xa0);
    if (sequence.kind != Utf8Kind::kValid || isControl)
      return false;
    text.remove_prefix(sequence.length);
  }
  return true;
}

static Status checkText(std::string_view text, std::string_view what) {
  if (text.size() > kMaxStringBytes)
    return invalidInput(what, " has ", text.size(), " bytes, expected at most ", kMaxStringBytes);
  if (!isPlainText(text))
    return invalidInput(what, " is not plain UTF-8 text without control characters");
  return {};
}

static Status checkRange(std::string_view what, uint64_t value, uint64_t low, uint64_t high) {
  if (value < low || value > high)
    return invalidInput(what, " is ", value, ", expected ", low, " to ", high);
  return {};
}

static Status checkModel(const Artifact &artifact) {
  const ModelInfo &model = artifact.model;
  MOERT_RETURN_IF_ERROR(checkText(model.modelType, "the model type"));
  // Token ids are int32.
  MOERT_RETURN_IF_ERROR(checkRange("vocabulary size", model.vocabularySize, 1, INT32_MAX));
  MOERT_RETURN_IF_ERROR(checkRange("hidden size", model.hiddenSize, 1, uint32_t(1) << 24));
  MOERT_RETURN_IF_ERROR(checkRange("number of layers", model.layers, 1, 65536));
  MOERT_RETURN_IF_ERROR(checkRange("maximum of positions", model.maxPositions, 1, kMaxTokens));
  // A BOS token is fed to the model, so it has to be one of its tokens. An EOS token is only
  // compared with: checkpoints with a cut vocabulary keep the ids of the whole one.
  if (model.bosToken && (*model.bosToken < 0 || uint32_t(*model.bosToken) >= model.vocabularySize))
    return invalidInput("BOS token ", *model.bosToken, " is outside of the vocabulary of ",
                        model.vocabularySize);
  for (int32_t token : model.eosTokens)
    if (token < 0)
      return invalidInput("EOS token ", token, " is negative");
  if (!std::has_single_bit(artifact.pageBytes) || artifact.pageBytes < kMinPageBytes ||
      artifact.pageBytes > kMaxPageBytes)
    return invalidInput("page size ", artifact.pageBytes, ", expected a power of two from ",
                        kMinPageBytes, " to ", kMaxPageBytes);
  std::unordered_set<std::string_view> keys;
  for (const auto &[key, value] : artifact.provenance) {
    MOERT_RETURN_IF_ERROR(checkText(key, "a provenance key"));
    MOERT_RETURN_IF_ERROR(checkText(value, "a provenance value"));
    if (!keys.insert(key).second)
      return invalidInput("the provenance key '", key, "' is there twice");
  }
  return {};
}

// Sections that the Artifact describes are those of the prefix; a writer has not got one yet.
static Status checkSections(const Artifact &artifact) {
  struct Place {
    const char *name;
    uint64_t offset, bytes;
  };
  for (const Place &place :
       {Place{"resident weights", artifact.residentOffset, artifact.residentBytes},
        {"records", artifact.recordsOffset, artifact.recordsBytes},
        {"tokenizer", artifact.tokenizerOffset, artifact.tokenizerBytes}}) {
    if (place.offset % kSliceAlignment != 0)
      return invalidInput("section ", place.name, " is at offset ", place.offset,
                          ", expected a multiple of ", kSliceAlignment);
    if (!rangeFits(place.offset, place.bytes, artifact.fileBytes))
      return invalidInput("section ", place.name, " at offset ", place.offset, " has ", place.bytes,
                          " bytes, the file ends at ", artifact.fileBytes);
  }
  return {};
}

namespace {

/// A range of the file and what it belongs to, for finding overlaps.
struct Range {
  uint64_t offset, bytes;
  uint32_t layer, index;
};

} // namespace

static void sortByOffset(std::vector<Range> &ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return a.offset < b.offset; });
}

static Status checkResident(const Artifact &artifact, const ResidentWeight &weight) {
  MOERT_RETURN_IF_ERROR(checkText(weight.name, "the name"));
  MOERT_ASSIGN_OR_RETURN(MatrixLayout layout, layoutOf(weight.shape, weight.format));
  if (weight.bytes != layout.bytes)
    return invalidInput(weight.bytes, " bytes, a ", weight.shape.rows, " x ", weight.shape.cols,
                        " matrix of ", nameOf(weight.format.kind), " has ", layout.bytes);
  if (weight.offset % kResidentAlignment != 0)
    return invalidInput("offset ", weight.offset, ", expected a multiple of ", kResidentAlignment);
  if (!rangeFits(weight.offset, weight.bytes, artifact.residentBytes))
    return invalidInput(weight.bytes, " bytes at offset ", weight.offset,
                        " leave the resident section of ", artifact.residentBytes, " bytes");
  return {};
}

static Status checkResidents(const Artifact &artifact) {
  std::vector<Range> ranges;
  for (uint32_t i = 0; i < artifact.residents.size(); ++i) {
    const ResidentWeight &weight = artifact.residents[i];
    MOERT_RETURN_IF_ERROR(
        checkResident(artifact, weight).withContext(strCat("resident weight ", i)));
    ranges.push_back({weight.offset, weight.bytes, 0, i});
  }
  sortByOffset(ranges);
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].offset - ranges[i - 1].offset < ranges[i - 1].bytes)
      return invalidInput("resident weights ", ranges[i - 1].index, " and ", ranges[i].index,
                          " overlap at offset ", ranges[i].offset);
  return {};
}

// What every expert of a layer has to agree on, because one list of buffers serves them all: float
// weights want float inputs, quantized ones inputs quantized in their activation group.
static Status checkSliceFormat(const MoeLayer &layer, const WeightFormat &format) {
  const WeightFormat &first = layer.experts.front().slices.front().format;
  if (isQuantized(format.kind) != isQuantized(first.kind) ||
      format.activationGroup != first.activationGroup)
    return invalidInput(nameOf(format.kind), " with activation group ", format.activationGroup,
                        ", the layer's first expert is ", nameOf(first.kind),
                        " with activation group ", first.activationGroup);
  return {};
}

static Status checkSlices(const MoeLayer &layer, const Expert &expert) {
  MOERT_RETURN_IF_ERROR(checkRange("number of slices", expert.slices.size(), 1, UINT8_MAX));
  uint64_t end = 0;
  for (size_t i = 0; i < expert.slices.size(); ++i) {
    const Slice &slice = expert.slices[i];
    auto refuse = [&](const char *what, uint64_t found, uint64_t expected) {
      return invalidInput("slice ", i, ": ", what, " is ", found, ", expected ", expected);
    };
    MOERT_RETURN_IF_ERROR(checkSliceFormat(layer, slice.format).withContext(strCat("slice ", i)));
    auto layout = sliceLayoutOf(layer, slice.format);
    if (!layout.isOk())
      return layout.status().withContext(strCat("slice ", i));
    std::optional<uint64_t> bytes = checkedRoundUp(layout->payloadBytes, kSliceAlignment);
    if (!bytes)
      return invalidInput("slice ", i, ": ", layout->payloadBytes, " bytes of payload");
    if (slice.payloadBytes != layout->payloadBytes)
      return refuse("the payload", slice.payloadBytes, layout->payloadBytes);
    if (slice.bytes != *bytes)
      return refuse("the size", slice.bytes, *bytes);
    if (slice.offset != end)
      return refuse("the offset", slice.offset, end);
    std::optional<uint64_t> next = checkedAdd(end, slice.bytes);
    if (!next)
      return refuse("the end", UINT64_MAX, expert.bytes);
    end = *next;
  }
  if (expert.bytes != end)
    return invalidInput(expert.bytes, " bytes, its slices have ", end);
  return {};
}

static Status checkVariants(const Expert &expert) {
  if (expert.variants.empty())
    return invalidInput("no variants, expected at least 1");
  for (size_t v = 0; v < expert.variants.size(); ++v) {
    const std::vector<uint8_t> &variant = expert.variants[v];
    if (variant.empty())
      return invalidInput("variant ", v, " has no slices");
    for (size_t i = 0; i < variant.size(); ++i) {
      if (variant[i] >= expert.slices.size())
        return invalidInput("variant ", v, " names slice ", uint32_t(variant[i]), ", there are ",
                            expert.slices.size());
      if (i > 0 && variant[i] <= variant[i - 1])
        return invalidInput("variant ", v, " names slice ", uint32_t(variant[i]), " after slice ",
                            uint32_t(variant[i - 1]), ", expected ascending slices");
      if (variant.size() > 1 && !isQuantized(expert.slices[variant[i]].format.kind))
        return invalidInput("variant ", v, " adds ", nameOf(expert.slices[variant[i]].format.kind),
                            " slices, only quantized ones can be added");
    }
  }
  return {};
}

// y = down(activation(gate x) * up x): the one shape of an expert that instructions can compute.
static Status checkMatrices(const Artifact &artifact, const MoeLayer &layer) {
  if (layer.matrices.size() != 3)
    return invalidInput(layer.matrices.size(), " matrices, expected gate, up and down");
  const MatrixShape &gate = layer.matrices[0].shape;
  for (size_t i = 0; i < layer.matrices.size(); ++i) {
    const ExpertMatrix &matrix = layer.matrices[i];
    MatrixShape expected = i < 2 ? MatrixShape{gate.rows, artifact.model.hiddenSize}
                                 : MatrixShape{artifact.model.hiddenSize, gate.rows};
    if (matrix.part != ExpertPart(i))
      return invalidInput("matrix ", i, " is part ", uint32_t(matrix.part), ", expected part ", i);
    if (!(matrix.shape == expected))
      return invalidInput("matrix ", i, " is ", matrix.shape.rows, " x ", matrix.shape.cols,
                          ", expected ", expected.rows, " x ", expected.cols);
  }
  return {};
}

static Status checkMoeLayer(const Artifact &artifact, uint32_t index, std::vector<Range> &records) {
  const MoeLayer &layer = artifact.moeLayers[index];
  MOERT_RETURN_IF_ERROR(checkRange("its number", layer.layer, 0, artifact.model.layers - 1));
  if (index > 0 && layer.layer <= artifact.moeLayers[index - 1].layer)
    return invalidInput("its number ", layer.layer, " follows ",
                        artifact.moeLayers[index - 1].layer, ", expected ascending layers");
  MOERT_RETURN_IF_ERROR(checkMatrices(artifact, layer));
  MOERT_RETURN_IF_ERROR(checkRange("number of experts", layer.experts.size(), 1, 65536));
  for (uint32_t e = 0; e < layer.experts.size(); ++e) {
    const Expert &expert = layer.experts[e];
    // checkSliceFormat() looks at the first expert's first slice.
    if (expert.slices.empty())
      return invalidInput("expert ", e, ": no slices, expected at least 1");
    MOERT_RETURN_IF_ERROR(checkSlices(layer, expert).withContext(strCat("expert ", e)));
    MOERT_RETURN_IF_ERROR(checkVariants(expert).withContext(strCat("expert ", e)));
    records.push_back({expert.fileOffset, expert.bytes, index, e});
  }
  return {};
}

// Records fill their section without gaps, in any order: every byte of the file belongs to
// something that has a checksum or has to be zero.
static Status checkRecordsTile(const Artifact &artifact, std::vector<Range> records) {
  sortByOffset(records);
  uint64_t end = artifact.recordsOffset, left = artifact.recordsBytes;
  for (const Range &record : records) {
    auto name = [&] {
      return strCat("the record of layer ", artifact.moeLayers[record.layer].layer, ", expert ",
                    record.index);
    };
    if (record.offset != end)
      return invalidInput(name(), " is at offset ", record.offset, ", expected ", end,
                          record.offset < end ? ": it overlaps another" : ": nothing is before it");
    if (record.bytes > left)
      return invalidInput(name(), " has ", record.bytes, " bytes, the records section has ", left,
                          " left");
    end += record.bytes;
    left -= record.bytes;
  }
  if (left != 0)
    return invalidInput("the records have ", artifact.recordsBytes - left,
                        " bytes, their section has ", artifact.recordsBytes);
  return {};
}

static Status checkMoeLayers(const Artifact &artifact) {
  std::vector<Range> records;
  for (uint32_t i = 0; i < artifact.moeLayers.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkMoeLayer(artifact, i, records).withContext(strCat("MoE layer ", i)));
  return checkRecordsTile(artifact, std::move(records));
}

static Status checkPlan(const Artifact &artifact, const Plan &plan) {
  MOERT_RETURN_IF_ERROR(checkText(plan.name, "the name"));
  MOERT_RETURN_IF_ERROR(checkRange("prefill chunk", plan.prefillChunk, 1, kMaxPrefillChunk));
  MOERT_RETURN_IF_ERROR(checkRange("context", plan.contextTokens, 1, artifact.model.maxPositions));
  if (plan.quotaPages.size() != artifact.moeLayers.size())
    return invalidInput("quotas of ", plan.quotaPages.size(), " layers, expected ",
                        artifact.moeLayers.size());
  for (size_t i = 0; i < artifact.moeLayers.size(); ++i) {
    uint64_t allPages = 0, largestPages = 0;
    for (const Expert &expert : artifact.moeLayers[i].experts) {
      uint64_t pages = divideUp(expert.bytes, artifact.pageBytes);
      allPages += pages;
      largestPages = std::max(largestPages, pages);
    }
    uint64_t room = uint64_t(plan.quotaPages[i]) + plan.transitPages;
    if (room < largestPages)
      return invalidInput("MoE layer ", i, " has ", room, " pages with those in transit, its ",
                          "largest record needs ", largestPages);
    if (plan.quotaPages[i] > allPages)
      return invalidInput("MoE layer ", i, " has a quota of ", plan.quotaPages[i],
                          " pages, all its records need ", allPages);
  }
  return {};
}

static Status checkPlans(const Artifact &artifact) {
  if (artifact.plans.empty())
    return invalidInput("no plans, expected at least 1");
  std::unordered_set<std::string_view> names;
  // 0 stands for no limit, so it is the largest.
  auto limitOf = [](const Plan &plan) { return plan.budgetBytes - 1; };
  for (size_t i = 0; i < artifact.plans.size(); ++i) {
    const Plan &plan = artifact.plans[i];
    MOERT_RETURN_IF_ERROR(checkPlan(artifact, plan).withContext(strCat("plan ", i)));
    if (plan.name.empty() || !names.insert(plan.name).second)
      return invalidInput("plan ", i, ": the name '", plan.name, "' is empty or taken");
    if (i > 0 && limitOf(plan) > limitOf(artifact.plans[i - 1]))
      return invalidInput("plan ", i, ": its budget of ", plan.budgetBytes,
                          " bytes is larger than the one before, expected the largest first");
  }
  return {};
}

// Sums of at most 2^32 bytes and at most 2^30 tokens cannot overflow.
static Status checkKvAndRopes(const Artifact &artifact) {
  uint64_t bytesPerToken = 0;
  for (size_t i = 0; i < artifact.kvSlots.size(); ++i) {
    const KvSlot &slot = artifact.kvSlots[i];
    if (slot.kvHeads == 0 || slot.keyDim == 0 || slot.valueDim == 0)
      return invalidInput("KV slot ", i, " has ", slot.kvHeads, " heads of ", slot.keyDim, " and ",
                          slot.valueDim, " elements, expected at least 1 of each");
    std::optional<uint64_t> elements =
        checkedMultiply(slot.kvHeads, uint64_t(slot.keyDim) + slot.valueDim);
    if (!elements || *elements > kMaxBytesPerToken / sizeof(float))
      return invalidInput("KV slot ", i, " needs more than ", kMaxBytesPerToken,
                          " bytes per token");
    bytesPerToken += *elements * sizeof(float);
    if (bytesPerToken > kMaxBytesPerToken)
      return invalidInput("the KV slots need more than ", kMaxBytesPerToken, " bytes per token");
  }
  for (size_t i = 0; i < artifact.ropes.size(); ++i) {
    const Rope &rope = artifact.ropes[i];
    if (rope.inverseFrequencies.empty())
      return invalidInput("rope ", i, " has no frequencies");
    bool isFinite = std::isfinite(rope.attentionFactor);
    for (float frequency : rope.inverseFrequencies)
      isFinite = isFinite && std::isfinite(frequency);
    if (!isFinite)
      return invalidInput("rope ", i, " has a factor or a frequency that is not finite");
  }
  return {};
}

static Status checkPrograms(const Artifact &artifact) {
  for (size_t i = 0; i < artifact.programs.size(); ++i) {
    const Program &program = artifact.programs[i];
    if (program.name != "decode" && program.name != "prefill")
      return checkText(program.name, "a program's name").isOk()
                 ? invalidInput("unknown program '", program.name,
                                "', this reads 'decode' and 'prefill'")
                 : invalidInput("unknown program, this reads 'decode' and 'prefill'");
    for (size_t j = 0; j < i; ++j)
      if (artifact.programs[j].name == program.name)
        return invalidInput("two programs are called '", program.name, "'");
    MOERT_RETURN_IF_ERROR(
        validateProgram(artifact, program).withContext(strCat("program ", program.name)));
  }
  if (artifact.programs.size() != 2)
    return invalidInput("programs 'decode' and 'prefill' expected, found ",
                        artifact.programs.size());
  return {};
}

Status validateArtifact(const Artifact &artifact) {
  MOERT_RETURN_IF_ERROR(checkModel(artifact));
  MOERT_RETURN_IF_ERROR(checkSections(artifact));
  MOERT_RETURN_IF_ERROR(checkResidents(artifact));
  MOERT_RETURN_IF_ERROR(checkMoeLayers(artifact));
  MOERT_RETURN_IF_ERROR(checkKvAndRopes(artifact));
  MOERT_RETURN_IF_ERROR(checkPlans(artifact));
  return checkPrograms(artifact);
}

} // namespace moert
