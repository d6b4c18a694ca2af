// Structs that describe their fields. describe() passes each field to a visitor with its name and,
// where there is one, its rule:
//
//   struct PlanText {
//     std::string name;
//     uint64_t hash = 0;
//     template <typename Self, typename Visit> static void describe(Self &text, Visit &&visit) {
//       visit("name"_field, text.name);
//       visit("hash"_field, text.hash, kHash);
//     }
//   };
//
// From that follow the manifest's encoding and decoder (runtime/format/ManifestFields.h), the check
// of ranges (FieldCheck.h), JSON (FieldJson.h), and the attribute in IR
// (compiler/ir/FieldAttrs.h). A field is a number, flag, string or enum with names, another such
// struct, an optional or a vector of these. docs/changing-the-format.md lists the steps of a new
// field.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace moert {

/// How JSON prints a number.
enum class FieldForm : uint8_t {
  kPlain,
  kPart, // The part of the largest valid value, from 0 to 1.
  kHash, // As hexadecimal digits: JSON numbers cannot hold 64 bits.
};

/// The values that a field may have, and where it is left out. Integers without limits have all
/// values; real numbers are finite in any case.
struct FieldRule {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  FieldForm form = FieldForm::kPlain;
  bool isOptional = false; // Files may lack it; of a manifest, a list that is empty.
  bool isSparse = false;   // JSON lacks it where it is empty or 0.

  constexpr FieldRule optional() const {
    FieldRule rule = *this;
    rule.isOptional = true;
    return rule;
  }
  constexpr FieldRule sparse() const {
    FieldRule rule = *this;
    rule.isSparse = true;
    return rule;
  }
};

inline constexpr FieldRule kAny = {};
inline constexpr FieldRule kAtLeast0 = {.least = 0};
inline constexpr FieldRule kFraction = {.least = 0, .most = 1};
inline constexpr FieldRule kHash = {.form = FieldForm::kHash};
constexpr FieldRule within(double least, double most) {
  return {.least = least, .most = most};
}

template <size_t kSize> struct FieldText {
  char characters[kSize];
  constexpr FieldText(const char (&text)[kSize]) { std::copy_n(text, kSize, characters); }
};

/// A field's name, the same in the schema and JSON, and in IR in camelCase. Visitors know it when
/// they are compiled: a name that the schema lacks does not compile.
template <FieldText kText, bool kStored> struct FieldName {
  static constexpr std::string_view kName{kText.characters, sizeof(kText.characters) - 1};
  static constexpr bool kIsStored = kStored;
};

template <FieldText kText> constexpr FieldName<kText, true> operator""_field() {
  return {};
}
/// A field that the schema lacks: the manifest's decoder derives it from others.
template <FieldText kText> constexpr FieldName<kText, false> operator""_derived() {
  return {};
}

namespace detail {
struct AnyVisitor {
  template <typename... Field> void operator()(Field &&...) const {}
};
} // namespace detail

template <typename T>
concept Described = requires(T &value, detail::AnyVisitor visit) {
  T::describe(value, visit);
};

} // namespace moert
