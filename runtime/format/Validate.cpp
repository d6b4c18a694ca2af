// Validates everything but the experts (ValidateRecords.cpp), the plans (ValidatePlans.cpp), the
// programs (ValidateProgram.cpp), the measurements (ValidateMeasured.cpp) and what conversations
// need (ValidateChat.cpp). A field is checked
// before a later rule uses it; the functions are in the order of that dependence.
#include "runtime/format/Validate.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/format/Manifest.h"
#include "runtime/format/ValidateRules.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <unordered_set>

namespace moert {

static Status checkModel(const Artifact &artifact) {
  const ModelInfo &model = artifact.model;
  MOERT_RETURN_IF_ERROR(checkFields(model).withContext("model"));
  // A BOS token is fed to the model, so it must be in the vocabulary. An EOS token is only compared
  // with: checkpoints with a cut vocabulary keep the ids of the whole one.
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
      return invalidInput("the provenance key '", key, "' appears twice");
  }
  return {};
}

// Sections that the Artifact describes are those of the prefix; a writer has no prefix yet.
static Status checkSections(const Artifact &artifact) {
  struct Place {
    const char *name;
    uint64_t offset, bytes;
  };
  for (const Place &place :
       {Place{"resident weights", artifact.residentOffset, artifact.residentBytes},
        {"records", artifact.recordsOffset, artifact.recordsBytes},
        {"tokenizer", artifact.tokenizerOffset, artifact.tokenizerBytes},
        {"paths", artifact.pathsOffset, artifact.pathsBytes},
        {"trace", artifact.traceOffset, artifact.traceBytes}}) {
    if (place.offset % kSliceAlignment != 0)
      return invalidInput("section ", place.name, " is at offset ", place.offset,
                          ", expected a multiple of ", kSliceAlignment);
    if (!rangeFits(place.offset, place.bytes, artifact.fileBytes))
      return invalidInput("section ", place.name, " at offset ", place.offset, " has ", place.bytes,
                          " bytes, the file ends at ", artifact.fileBytes);
  }
  return {};
}

static Status checkResident(const Artifact &artifact, const ResidentWeight &weight) {
  MOERT_RETURN_IF_ERROR(checkText(weight.name, "the name"));
  if (weight.format.refines)
    return invalidInput("it refines another matrix, which only slices of experts do");
  if (isKept(weight.format.kind) || planesOf(weight.format.kind).size() > 1)
    return invalidInput("it is ", nameOf(weight.format.kind), ", which only experts are");
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
  std::vector<FileRange> ranges;
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

// Sums of at most 2^32 bytes and at most 2^30 tokens cannot overflow.
static Status checkSlotsAndRopes(const Artifact &artifact) {
  uint64_t bytesPerToken = 0;
  for (size_t i = 0; i < artifact.kvSlots.size(); ++i) {
    const KvSlot &slot = artifact.kvSlots[i];
    if (slot.kvHeads == 0 || slot.keyDim == 0)
      return invalidInput("KV slot ", i, " has ", slot.kvHeads, " heads with keys of ", slot.keyDim,
                          " elements, expected at least 1 of each");
    if (slot.kvHeads >> kKvKindShift != 0)
      return invalidInput("KV slot ", i, " has ", slot.kvHeads, " heads, expected fewer than ",
                          1u << kKvKindShift);
    if (slot.kind == KvKind::kInt8 && slot.valueDim == 0)
      return invalidInput("KV slot ", i, " keeps values in keys of int8, expected f16 or f32");
    std::optional<uint64_t> bytes =
        checkedMultiply(slot.kvHeads, slot.keyRowBytes() + slot.valueRowBytes());
    if (!bytes || *bytes > kMaxBytesPerToken)
      return invalidInput("KV slot ", i, " needs more than ", kMaxBytesPerToken,
                          " bytes per token");
    bytesPerToken += *bytes;
    if (bytesPerToken > kMaxBytesPerToken)
      return invalidInput("the KV slots need more than ", kMaxBytesPerToken, " bytes per token");
  }
  uint64_t stateBytes = 0;
  for (size_t i = 0; i < artifact.stateSlots.size(); ++i) {
    const StateSlot &slot = artifact.stateSlots[i];
    if (slot.rows == 0 || slot.width == 0)
      return invalidInput("state slot ", i, " is ", slot.rows, " x ", slot.width,
                          ", expected at least 1 of each");
    const uint64_t elements = uint64_t(slot.rows) * slot.width;
    if (elements > kMaxStateBytes / sizeof(float) ||
        (stateBytes += elements * sizeof(float)) > kMaxStateBytes)
      return invalidInput("the state slots up to ", i, " need more than ", kMaxStateBytes,
                          " bytes per sequence");
  }
  for (size_t i = 0; i < artifact.ropes.size(); ++i) {
    const Rope &rope = artifact.ropes[i];
    if (rope.inverseFrequencies.empty())
      return invalidInput("rope ", i, " has no frequencies");
    const size_t longer = rope.longInverseFrequencies.size();
    if (longer != (rope.originalPositions == 0 ? 0 : rope.inverseFrequencies.size()))
      return invalidInput("rope ", i, " has ", longer, " frequencies for more than ",
                          rope.originalPositions, " positions, and ",
                          rope.inverseFrequencies.size(), " for fewer");
    bool isFinite = std::isfinite(rope.attentionFactor) && std::isfinite(rope.longAttentionFactor);
    for (const std::vector<float> *table : {&rope.inverseFrequencies, &rope.longInverseFrequencies})
      for (float frequency : *table)
        isFinite = isFinite && std::isfinite(frequency);
    if (!isFinite)
      return invalidInput("rope ", i, " has a factor or a frequency that is not finite");
  }
  return {};
}

static Status checkProgramNames(const std::vector<Program> &all) {
  constexpr std::string_view kKnown[] = {programs::kDecode, programs::kPrefill, programs::kEncode,
                                         programs::kClassify};
  constexpr const char *kExpected =
      "'decode' and 'prefill', with or without 'encode', or 'classify'";
  std::string found;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string &name = all[i].name;
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
      return checkText(name, "a program's name").isOk()
                 ? invalidInput("unknown program '", name, "', this reads ", kExpected)
                 : invalidInput("unknown program, this reads ", kExpected);
    if (findProgram(std::span(all).first(i), name))
      return invalidInput("two programs have the name '", name, "'");
    found += strCat(i == 0 ? "'" : ", '", name, "'");
  }
  const auto has = [&all](std::string_view name) { return findProgram(all, name) != nullptr; };
  const bool decodes = has(programs::kDecode) && has(programs::kPrefill);
  if (has(programs::kClassify) ? all.size() != 1 : !decodes)
    return invalidInput("programs ", kExpected, " expected, found ", all.empty() ? "none" : found);
  return {};
}

/// A miss rule changes choices before their experts' capacity counts them, which no loss was
/// measured for.
static Status checkCapacities(const Artifact &artifact) {
  for (const Program &program : artifact.programs)
    for (const Instruction &instruction : program.instructions)
      for (const Plan &plan : artifact.plans)
        if (std::holds_alternative<CapacityInstruction>(instruction) && plan.miss.isLossy())
          return invalidInput("plan '", plan.name,
                              "' has a miss rule, expected none with experts of limited capacity");
  return {};
}

static Status checkPrograms(const Artifact &artifact) {
  MOERT_RETURN_IF_ERROR(checkProgramNames(artifact.programs));
  MOERT_RETURN_IF_ERROR(checkCapacities(artifact));
  for (const Program &program : artifact.programs)
    MOERT_RETURN_IF_ERROR(
        validateProgram(artifact, program).withContext(strCat("program ", program.name)));
  return {};
}

Status validateArtifact(const Artifact &artifact) {
  MOERT_RETURN_IF_ERROR(checkModel(artifact));
  MOERT_RETURN_IF_ERROR(checkSections(artifact));
  MOERT_RETURN_IF_ERROR(checkResidents(artifact));
  MOERT_RETURN_IF_ERROR(validateMoeLayers(artifact));
  MOERT_RETURN_IF_ERROR(checkSlotsAndRopes(artifact));
  MOERT_RETURN_IF_ERROR(validatePlans(artifact));
  MOERT_RETURN_IF_ERROR(validateMeasured(artifact));
  MOERT_RETURN_IF_ERROR(validateQuickLoss(artifact));
  if (artifact.chat)
    MOERT_RETURN_IF_ERROR(validateChat(*artifact.chat).withContext("chat"));
  if (artifact.sampling)
    MOERT_RETURN_IF_ERROR(validateSampling(*artifact.sampling).withContext("sampling"));
  return checkPrograms(artifact);
}

} // namespace moert
