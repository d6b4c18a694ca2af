// The types of the tools' parameters, by which text in an answer becomes JSON: forms that write
// values without quotes do not show whether 2 is a number or a text.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace moert {

/// Immutable once built: any number of threads may use it.
class ToolTypes {
public:
  ToolTypes() = default;
  /// tools: the array of OpenAI's API; entries of another shape have no types.
  explicit ToolTypes(const nlohmann::ordered_json &tools);

  /// A value as JSON. A text that is JSON of a type that the parameter may have is that JSON, any
  /// other a string. A parameter without a type may have every type; "True" and "None" are read as
  /// Python writes them where a boolean or null may be.
  std::string valueOf(std::string_view tool, std::string_view parameter,
                      std::string_view text) const;

private:
  std::map<std::string, std::map<std::string, uint8_t, std::less<>>, std::less<>> types;
};

/// A text as a JSON string; broken UTF-8 becomes U+FFFD.
std::string jsonString(std::string_view text);

/// Without white space at both ends.
std::string_view trimmed(std::string_view text, std::string_view space = " \t\r\n");

} // namespace moert
