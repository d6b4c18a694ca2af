// The names of an enumeration's values, declared once, beside the enumeration:
//
//   enum class Origin : uint8_t { kMeasured = 0, kStated = 1 };
//   template <> inline constexpr EnumNames<2> kNames<Origin> = {"measured", "stated"};
//
// Messages, JSON and IR print these names, the parsers of options and IR read them, and a file
// with a number beyond them is refused.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

namespace moert {

/// In the order of the numbers, which begin at 0.
template <size_t kCount> using EnumNames = std::array<std::string_view, kCount>;

template <typename Enum> inline constexpr EnumNames<0> kNames = {};

/// The names of a table with a row for each value.
template <typename Row, size_t kCount>
constexpr EnumNames<kCount> namesOf(const std::array<Row, kCount> &rows) {
  EnumNames<kCount> names;
  std::transform(rows.begin(), rows.end(), names.begin(), [](const Row &row) { return row.name; });
  return names;
}

template <typename Enum>
concept NamedEnum = std::is_enum_v<Enum> && !kNames<Enum>.empty();

template <NamedEnum Enum> constexpr std::string_view nameOf(Enum value) {
  return kNames<Enum>[static_cast<size_t>(value)];
}

/// The value of a name; nothing if there is none.
template <NamedEnum Enum> constexpr std::optional<Enum> valueNamed(std::string_view name) {
  const auto found = std::find(kNames<Enum>.begin(), kNames<Enum>.end(), name);
  if (found == kNames<Enum>.end())
    return std::nullopt;
  return static_cast<Enum>(found - kNames<Enum>.begin());
}

} // namespace moert
