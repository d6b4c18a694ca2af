// FlatBuffers to an Artifact. The verifier proves that every offset stays in the buffer. This class
// checks every enumeration and flag, and bounds the decoded size by the size of the bytes: offsets
// in a hostile buffer may all refer to one large vector, which a writer never does. Internal to
// runtime/format.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"
#include "runtime/format/ManifestFields.h"

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

  template <typename Enum, typename Last>
  Status decodeEnum(uint32_t number, Last last, std::string_view what, Enum &value) {
    if (number > uint32_t(last))
      return invalidInput("unknown ", what, " ", number, ", this reads 0 to ", uint32_t(last));
    value = Enum(number);
    return {};
  }

  Status decodeFlag(uint32_t number, std::string_view what, bool &value) {
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
  Status beginList(const void *elements, uint32_t count, size_t bytesEach, size_t alignment,
                   std::string_view what);
  template <typename Stored>
  Status beginList(const flatbuffers::Vector<Stored> &vector, std::string_view what) {
    return beginList(vector.Data(), vector.size(),
                     flatbuffers::IndirectHelper<Stored>::element_stride,
                     alignof(std::remove_pointer_t<decltype(vector.Get(0))>), what);
  }
  /// Names the place of an error; does nothing without one.
  static void addContext(Status &status, std::string_view what,
                         std::optional<uint32_t> element = std::nullopt);

  template <typename T>
  Status decodeScalars(const flatbuffers::Vector<T> &vector, std::vector<T> &values) {
    MOERT_RETURN_IF_ERROR(beginList(vector.Data(), vector.size(), sizeof(T), alignof(T), "number"));
    values.assign(vector.begin(), vector.end());
    return {};
  }

  // Calls decodeElement for each element of a vector of tables or structs; errors name the element.
  template <typename Stored, typename Element, typename Decode>
  Status decodeEach(const flatbuffers::Vector<Stored> &vector, std::vector<Element> &elements,
                    std::string_view what, Decode decodeElement) {
    MOERT_RETURN_IF_ERROR(beginList(vector, what));
    elements.resize(vector.size());
    for (uint32_t i = 0; i < vector.size(); ++i) {
      Status status = decodeElement(*vector.Get(i), elements[i]);
      addContext(status, what, i);
      MOERT_RETURN_IF_ERROR(std::move(status));
    }
    return {};
  }

  // The functions from here on do nothing after an error, which they keep in `status`; a field that
  // is absent leaves the value unchanged.

  /// A table or struct whose fields the value describes, or one of a pair of strings.
  template <typename Stored, typename T>
  void decodeFields(Status &status, const Stored &stored, T &value) {
    visitFields(value, [&]<typename Name>(Name, auto &field, const FieldRule & = kAny) {
      if constexpr (Name::kIsStored)
        decodeField(status, stored.template get_field<indexOf<Stored, Name>()>(), field,
                    Name::kName);
    });
  }

  template <typename T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) void decodeField(Status &, T stored,
                                                                                 T &value,
                                                                                 std::string_view) {
    value = stored;
  }

  /// Compiled once for all fields of a type.
  template <typename Stored, typename T>
  [[gnu::noinline]] void decodeField(Status &status, Stored stored, T &value,
                                     std::string_view name) {
    if (!status.isOk())
      return;
    if constexpr (std::is_same_v<T, bool>)
      status = decodeFlag(stored, name, value);
    else if constexpr (std::is_enum_v<T>)
      status = decodeEnum(stored, kLastStored<T>, name, value);
    else if (stored)
      decodePresent(status, *stored, value, name);
  }

  template <typename Stored, typename T>
  void decodePresent(Status &status, const Stored &stored, T &value, std::string_view name) {
    if constexpr (requires { value.has_value(); } && std::is_arithmetic_v<Stored>) {
      decodeField(status, stored, value.emplace(), name);
    } else if constexpr (requires { value.has_value(); }) {
      decodePresent(status, stored, value.emplace(), name);
    } else if constexpr (std::is_same_v<T, std::string>) {
      status = decodeString(stored, value);
    } else if constexpr (Described<T>) {
      decodeFields(status, stored, value);
      addContext(status, name);
    } else {
      decodeList(status, stored, value, name);
    }
  }

  template <typename T>
  void decodeList(Status &status, const flatbuffers::Vector<T> &stored, std::vector<T> &values,
                  std::string_view) {
    status = decodeScalars(stored, values);
  }
  template <typename Stored, typename T>
  void decodeList(Status &status, const flatbuffers::Vector<Stored> &stored, std::vector<T> &values,
                  std::string_view name) {
    status = beginList(stored, name);
    if (status.isOk())
      values.resize(stored.size());
    for (uint32_t i = 0; i < values.size() && status.isOk(); ++i) {
      T &value = values[i];
      if constexpr (requires { value.front(); })
        status = decodeScalars(*stored.Get(i)->template get_field<0>(), value);
      else
        decodeFields(status, *stored.Get(i), value);
      addContext(status, name, i);
    }
  }

  /// mark: what is added to `refines`.
  Status decodeFormat(const fb::WeightFormat &format, WeightFormat &value, uint32_t mark = 0);
  Status decodeResident(const fb::ResidentWeight &weight, ResidentWeight &value);
  Status decodeExpert(const fb::Expert &expert, Expert &value);
  Status decodeDownFormats(const fb::Expert &expert, Expert &value);
  Status decodeMoeLayer(const fb::MoeLayer &layer, MoeLayer &value);
  Status decodeKvSlot(const fb::KvSlot &slot, KvSlot &value);
  Status decodeRope(const fb::Rope &rope, Rope &value);
  Status decodeStep(const fb::Step &step, Instruction &value);
  Status decodeProgram(const fb::Program &program, Program &value);
  Status decodePlan(const fb::Plan &plan, Plan &value);

  uint64_t bytesLeft;
  Artifact &artifact;
};

} // namespace moert
