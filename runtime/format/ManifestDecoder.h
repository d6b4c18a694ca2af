// FlatBuffers to an Artifact. The verifier proves that every offset stays in the buffer. This class
// checks every enumeration and flag, and bounds the decoded size by the size of the bytes: offsets
// in a hostile buffer may all refer to one large vector, which a writer never does. Internal to
// runtime/format.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <artifact_generated.h>

#include <type_traits>

namespace moert {

/// Decodes one manifest into one artifact. Lives for one call of decodeManifest().
class ManifestDecoder {
public:
  ManifestDecoder(uint64_t manifestBytes, Artifact &target)
      : bytesLeft(manifestBytes), artifact(target) {}

  Status decode(const fb::Manifest &manifest);

private:
  // Without sharing, all fields together cannot be larger than the manifest that holds them.
  Status spend(uint64_t count, uint64_t bytesEach) {
    if (count > bytesLeft / bytesEach)
      return invalidInput("the manifest refers to the same bytes twice");
    bytesLeft -= count * bytesEach;
    return {};
  }

  template <typename Enum>
  Status decodeEnum(uint32_t number, Enum last, const char *what, Enum &value) {
    if (number > uint32_t(last))
      return invalidInput("unknown ", what, " ", number, ", this reads 0 to ", uint32_t(last));
    value = Enum(number);
    return {};
  }

  Status decodeFlag(uint32_t number, const char *what, bool &value) {
    if (number > 1)
      return invalidInput(what, " is ", number, ", expected 0 or 1");
    value = number == 1;
    return {};
  }

  Status decodeString(const flatbuffers::String &string, std::string &value) {
    MOERT_RETURN_IF_ERROR(spend(string.size(), 1));
    value.assign(string.data(), string.size());
    return {};
  }

  // FlatBuffers' verifier checks the alignment of offsets, tables and vector lengths, but not of a
  // vector's elements. A writer need not align an empty vector.
  template <typename Vector>
  Status checkAligned(const Vector &vector, size_t alignment, const char *what) {
    if (vector.size() != 0 && reinterpret_cast<uintptr_t>(vector.Data()) % alignment != 0)
      return invalidInput(what, "s lie at an address that is not a multiple of ", alignment);
    return {};
  }

  template <typename T>
  Status decodeScalars(const flatbuffers::Vector<T> &vector, std::vector<T> &values) {
    MOERT_RETURN_IF_ERROR(spend(vector.size(), sizeof(T)));
    MOERT_RETURN_IF_ERROR(checkAligned(vector, alignof(T), "number"));
    values.assign(vector.begin(), vector.end());
    return {};
  }

  // Calls decodeElement for each element of a vector of tables or structs; errors name the element.
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

  /// mark: what is added to `refines`.
  Status decodeFormat(const fb::WeightFormat &format, WeightFormat &value, uint32_t mark = 0);
  Status decodeModel(const fb::ModelInfo &model);
  Status decodeResident(const fb::ResidentWeight &weight, ResidentWeight &value);
  Status decodeExpert(const fb::Expert &expert, Expert &value);
  Status decodeDownFormats(const fb::Expert &expert, Expert &value);
  Status decodeMoeLayer(const fb::MoeLayer &layer, MoeLayer &value);
  Status decodeKvSlot(const fb::KvSlot &slot, KvSlot &value);
  Status decodeRope(const fb::Rope &rope, Rope &value);
  Status decodeStep(const fb::Step &step, Instruction &value);
  Status decodeProgram(const fb::Program &program, Program &value);
  Status decodeRules(const fb::Plan &plan, CacheRules &value);
  Status decodeMiss(const fb::MissRule &miss, Plan &plan);
  Status decodePlanLoss(const fb::PlanLoss &loss, PlanLoss &value);
  Status decodeStart(const fb::LayerStart &start, LayerStart &value);
  Status decodeForecast(const fb::Forecast &forecast, Forecast &value);
  Status decodeReason(const fb::PlanReason &reason, PlanReason &value);
  Status decodePlan(const fb::Plan &plan, Plan &value);
  Status decodeMeasuredText(const fb::MeasuredText &text, MeasuredText &value);
  Status decodeCandidate(const fb::MeasuredCandidate &candidate, MeasuredCandidate &value);
  Status decodeMeasured(const fb::Measured &measured, Measured &value);
  Status decodeMeasured(const fb::Manifest &manifest);
  Status decodeTemplate(const fb::ChatTemplate &named, NamedTemplate &value);
  Status decodeChat(const fb::Chat &chat, Chat &value);
  Status decodeSampling(const fb::SamplingDefaults &sampling, SamplingDefaults &value);
  Status decodePairs(const flatbuffers::Vector<flatbuffers::Offset<fb::Provenance>> &pairs,
                     std::vector<std::pair<std::string, std::string>> &values, const char *what);

  uint64_t bytesLeft;
  Artifact &artifact;
};

} // namespace moert
