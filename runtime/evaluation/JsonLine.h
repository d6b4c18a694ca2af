// One line of a JSONL file: a JSON object whose fields are read by key, with refusals that name the
// file and the line.
#pragma once

#include "runtime/base/Status.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The value of one key.
struct JsonField {
  enum class Kind { kText, kNumber, kTexts, kIds, kOther };
  Kind kind = Kind::kOther;
  std::string text;
  uint64_t number = 0;
  std::vector<std::string> texts;
  std::vector<int32_t> ids; // An array of whole numbers from 0 to INT32_MAX, one or more.
};

/// Borrows the file's name. The readers move the value out: call each at most once per key.
class JsonLine {
public:
  using Fields = std::map<std::string, JsonField, std::less<>>;

  /// lineNumber counts from 1.
  JsonLine(std::string_view fileName, uint32_t lineNumber) : name(fileName), line(lineNumber) {}

  /// Refuses a line that is not one JSON object, a repeated key, and values nested too deep.
  Status parse(std::string_view text);

  /// The value of a key; refuses a missing key and a value of another kind. `expected` ends the
  /// message.
  Result<std::string> text(std::string_view key, std::string_view expected);
  Result<std::vector<std::string>> texts(std::string_view key, std::string_view expected);
  Result<uint64_t> number(std::string_view key, std::string_view expected);
  Result<std::vector<int32_t>> ids(std::string_view key, std::string_view expected);

  bool has(std::string_view key) const { return fields.find(key) != fields.end(); }
  bool hasTexts(std::string_view key) const;

  /// "FILE line N: found ..."
  template <typename... Parts> Status refuse(const Parts &...found) const {
    return invalidInput(name, " line ", line, ": found ", found...);
  }

private:
  Result<JsonField *> find(std::string_view key, JsonField::Kind kind, std::string_view expected);

  std::string_view name;
  uint32_t line;
  Fields fields;
};

/// Calls take(JsonLine &, line number) for each line of a JSONL file that is not blank.
template <typename Take>
Status forEachJsonLine(std::string_view content, std::string_view fileName, const Take &take) {
  for (uint32_t number = 1; !content.empty(); ++number) {
    const std::string_view text = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(text.size() + 1, content.size()));
    if (text.find_first_not_of(" \t\r") == std::string_view::npos)
      continue;
    JsonLine line(fileName, number);
    MOERT_RETURN_IF_ERROR(line.parse(text));
    MOERT_RETURN_IF_ERROR(take(line, number));
  }
  return {};
}

} // namespace moert
