// JSON of structs that describe their fields (runtime/base/Describe.h): what moec inspect prints of
// plans and measurements, and moert bench of a forecast beside its measurements.
#pragma once

#include "runtime/base/Checksum.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/format/Artifact.h"

namespace moert {

/// What a forecast's least bytes and its bound are a bound of, as printed.
inline constexpr const char *kBoundText =
    "the least that any cache of this size and start reads for these tokens";

template <Described T> void writeFields(JsonWriter &json, const T &value);

template <typename T>
void writeField(JsonWriter &json, const T &value, const FieldRule &rule = {}) {
  if constexpr (Described<T>) {
    json.beginObject();
    writeFields(json, value);
    json.endObject();
  } else if constexpr (std::is_same_v<T, std::string>) {
    json.string(value);
  } else if constexpr (std::is_enum_v<T>) {
    json.string(nameOf(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    json.boolean(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    json.number(double(value));
  } else if constexpr (std::is_signed_v<T>) {
    json.number(int64_t(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (rule.form == FieldForm::kHash)
      json.string(formatChecksum(value));
    else if (rule.form == FieldForm::kPart)
      json.number(double(value) / rule.most);
    else
      json.number(uint64_t(value));
  } else if constexpr (requires { value.first; }) {
    json.beginObject();
    json.key("option").string(value.first);
    json.key("value").string(value.second);
    json.endObject();
  } else if constexpr (requires { value.has_value(); }) {
    writeField(json, *value, rule);
  } else {
    json.beginArray();
    for (const auto &each : value)
      writeField(json, each, rule);
    json.endArray();
  }
}

/// Writes the fields as keys of an open object. An optional without a value, and a sparse field
/// that is empty or 0, has no key.
template <Described T> void writeFields(JsonWriter &json, const T &value) {
  T::describe(value,
              [&]<typename Field>(auto name, const Field &field, const FieldRule &rule = {}) {
                if constexpr (requires { field.has_value(); }) {
                  if (!field)
                    return;
                } else if (rule.isSparse && field == Field()) {
                  return;
                }
                writeField(json.key(name.kName), field, rule);
              });
  if constexpr (std::is_same_v<T, Forecast>)
    json.key("bound_of").string(kBoundText);
}

} // namespace moert
