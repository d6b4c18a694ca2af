// The check of structs that describe their fields (runtime/base/Describe.h): texts are plain,
// numbers are as their rules say. Rules between fields are in CheckPlan.cpp and Validate*.cpp.
#pragma once

#include "runtime/base/Describe.h"
#include "runtime/base/Status.h"

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace moert {

/// Refuses text that could harm a terminal or JSON, and very long text.
Status checkText(std::string_view text, std::string_view what);

/// Keeps the first error, which names the field and before it the fields that it is in; does
/// nothing after it.
class FieldChecker {
public:
  template <Described T> void check(const T &value) {
    T::describe(value, [this](auto name, const auto &field, const FieldRule &rule = kAny) {
      checkField(name.kName, field, rule);
    });
  }

  Status status;

private:
  template <typename T>
  void checkField(std::string_view name, const T &value, const FieldRule &rule) {
    if constexpr (Described<T>) {
      checkInner(value, name);
    } else if constexpr (std::is_same_v<T, std::string>) {
      checkString(name, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      checkReal(name, value, rule);
    } else if constexpr (std::is_unsigned_v<T> && !std::is_same_v<T, bool>) {
      checkWhole(name, value, rule);
    } else if constexpr (requires { value.has_value(); }) {
      if (value)
        checkField(name, *value, rule);
    } else if constexpr (std::is_same_v<T, std::vector<uint32_t>>) {
      checkAllWhole(name, value, rule);
    } else if constexpr (requires { value.begin(); }) {
      for (size_t i = 0; i < value.size() && status.isOk(); ++i) {
        if constexpr (Described<typename T::value_type>)
          checkInner(value[i], name, i);
        else
          checkField(name, value[i], rule);
      }
    } else if constexpr (requires { value.first; }) {
      checkString(name, value.first);
      checkString(name, value.second);
    }
  }

  template <Described T>
  void checkInner(const T &value, std::string_view name,
                  std::optional<size_t> element = std::nullopt) {
    if (!status.isOk())
      return;
    check(value);
    if (!status.isOk())
      addContext(name, element);
  }

  void checkReal(std::string_view name, double value, const FieldRule &rule);
  void checkWhole(std::string_view name, uint64_t value, const FieldRule &rule);
  void checkAllWhole(std::string_view name, const std::vector<uint32_t> &values,
                     const FieldRule &rule);
  void checkString(std::string_view name, const std::string &text);
  void addContext(std::string_view name, std::optional<size_t> element);
};

template <Described T> Status checkFields(const T &value) {
  FieldChecker checker;
  checker.check(value);
  return std::move(checker.status);
}

} // namespace moert
