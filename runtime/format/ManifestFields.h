// Tables and structs of the schema from structs that describe their fields
// (runtime/base/Describe.h), by the fields' names: what flatc's static reflection tells about a
// field decides how it is stored. The bytes are those that the generated Create functions would
// make. Internal to runtime/format.
#pragma once

#include "runtime/format/Manifest.h"

#include <artifact_generated.h>

#include <array>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace moert {

using Builder = flatbuffers::FlatBufferBuilder;

/// The index of a field of the schema.
template <typename Stored, typename Name> consteval size_t indexOf() {
  size_t index = 0;
  while (index < Stored::Traits::fields_number && Name::kName != Stored::Traits::field_names[index])
    ++index;
  return index; // A field that the schema lacks does not compile: get_field<> has no such index.
}

template <typename Stored, size_t kIndex>
using StoredField = typename Stored::Traits::template FieldType<kIndex>;

/// The largest number of an enum in a manifest.
template <NamedEnum Enum> inline constexpr uint32_t kLastStored = kNames<Enum>.size() - 1;
template <>
inline constexpr uint32_t kLastStored<MissAction> = uint32_t(StoredMissAction::kLowerPromptsAlone);
template <>
inline constexpr uint32_t kLastStored<CacheSharing> = uint32_t(StoredSharing::kTwoPools);

/// A field of a table that is about to be stored.
struct FieldSlot {
  enum class Kind : uint8_t { kNumber, kOptionalNumber, kOffset, kStruct };

  Kind kind = Kind::kNumber;
  uint8_t bytes = 0; // 0: absent.
  uint8_t alignment = 0;
  uint64_t number = 0; // Its bits, or an offset.
  std::vector<uint8_t> structure = {};
};

/// Stores a table. The largest fields come first, and of equal ones the last.
flatbuffers::uoffset_t storeTable(Builder &builder, std::span<const FieldSlot> slots);

template <typename Number> FieldSlot numberSlot(Number number, FieldSlot::Kind kind) {
  FieldSlot slot = {.kind = kind, .bytes = sizeof(Number)};
  if (number != 0 || kind == FieldSlot::Kind::kOptionalNumber) // A plain -0 is stored as 0.
    std::memcpy(&slot.number, &number, sizeof(number));
  return slot;
}

template <typename Stored> FieldSlot offsetSlot(flatbuffers::Offset<Stored> offset) {
  return {.kind = FieldSlot::Kind::kOffset, .bytes = sizeof(offset), .number = offset.o};
}

template <typename Stored> FieldSlot structSlot(const Stored &structure) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(&structure);
  return {.kind = FieldSlot::Kind::kStruct,
          .bytes = sizeof(flatbuffers::Offset<void>), // As an offset, in the order of fields.
          .alignment = alignof(Stored),
          .structure = {bytes, bytes + sizeof(structure)}};
}

template <typename Stored> inline constexpr bool kIsTable = requires {
  typename Stored::Builder;
};

/// Calls visit for the fields of a value that a table or struct of the schema holds.
template <typename T, typename Visit> void visitFields(T &value, Visit &&visit) {
  if constexpr (Described<T>) {
    T::describe(value, visit);
  } else {
    visit("key"_field, value.first);
    visit("value"_field, value.second);
  }
}

template <typename Target, typename T>
FieldSlot slotOf(Builder &builder, const T &value, const FieldRule &rule = {});

/// The table of a described value, of a pair of strings, or of a list that other lists hold.
template <typename Stored, typename T>
flatbuffers::Offset<Stored> encodeTable(Builder &builder, const T &value) {
  std::array<FieldSlot, Stored::Traits::fields_number> slots;
  if constexpr (requires { value.front(); })
    slots[0] = slotOf<StoredField<Stored, 0>>(builder, value);
  else
    visitFields(value, [&]<typename Name>(Name, const auto &field, const FieldRule &rule = {}) {
      if constexpr (Name::kIsStored) {
        constexpr size_t kIndex = indexOf<Stored, Name>();
        slots[kIndex] = slotOf<StoredField<Stored, kIndex>>(builder, field, rule);
      }
    });
  return storeTable(builder, slots);
}

template <typename Stored, Described T> Stored encodeStruct(const T &value) {
  std::array<uint32_t, Stored::Traits::fields_number> numbers = {};
  T::describe(value, [&]<typename Name>(Name, auto field, const FieldRule & = {}) {
    numbers[indexOf<Stored, Name>()] = static_cast<uint32_t>(field);
  });
  return [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return Stored(static_cast<StoredField<Stored, kIndex>>(numbers[kIndex])...);
  }
  (std::make_index_sequence<Stored::Traits::fields_number>());
}

template <typename Number>
auto encodeList(Builder &builder, const flatbuffers::Vector<Number> *,
                const std::vector<Number> &numbers) {
  return builder.CreateVector(numbers);
}

template <typename Stored, typename T>
auto encodeList(Builder &builder, const flatbuffers::Vector<const Stored *> *,
                const std::vector<T> &values) {
  std::vector<Stored> structs;
  for (const T &value : values)
    structs.push_back(encodeStruct<Stored>(value));
  return builder.CreateVectorOfStructs(structs);
}

template <typename Stored, typename T>
auto encodeList(Builder &builder, const flatbuffers::Vector<flatbuffers::Offset<Stored>> *,
                const std::vector<T> &values) {
  std::vector<flatbuffers::Offset<Stored>> tables;
  for (const T &value : values)
    tables.push_back(encodeTable<Stored>(builder, value));
  return builder.CreateVector(tables);
}

/// A field as it is stored: absent where it is an optional without a value, an optional list that
/// is empty, or a struct whose fields have their defaults.
template <typename Target, typename T>
FieldSlot slotOf(Builder &builder, const T &value, const FieldRule &rule) {
  if constexpr (requires { value.has_value(); }) {
    if (!value)
      return {};
    if constexpr (std::is_pointer_v<Target>)
      return slotOf<Target>(builder, *value);
    else
      return numberSlot(static_cast<typename Target::value_type>(*value),
                        FieldSlot::Kind::kOptionalNumber);
  } else if constexpr (!std::is_pointer_v<Target>) {
    static_assert(std::is_same_v<T, Target> || std::is_enum_v<T> || std::is_same_v<T, bool>);
    return numberSlot(static_cast<Target>(value), FieldSlot::Kind::kNumber);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return offsetSlot(builder.CreateString(value));
  } else if constexpr (requires { value.begin(); }) {
    if (rule.isOptional && value.empty())
      return {};
    return offsetSlot(encodeList(builder, Target(), value));
  } else {
    using Stored = std::remove_cv_t<std::remove_pointer_t<Target>>;
    if constexpr (kIsTable<Stored>)
      return offsetSlot(encodeTable<Stored>(builder, value));
    else
      return value == T() ? FieldSlot() : structSlot(encodeStruct<Stored>(value));
  }
}

} // namespace moert
