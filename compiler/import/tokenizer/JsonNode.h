// A JSON value with its path in the file, so that error messages can name the place. For the parser
// of tokenizer.json.
#pragma once

#include "runtime/base/Excerpt.h"
#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace moert {

/// The bytes of a text in base64, padded.
Result<std::string> decodeBase64(std::string_view text);

/// Points into a parsed document, which must outlive it.
class JsonNode {
public:
  /// Parses a whole document into storage. Refuses syntax errors, broken UTF-8, duplicate names in
  /// one object, and nesting deeper than 32 levels.
  static Result<JsonNode> parse(std::string_view text, nlohmann::json &storage);

  /// "path: found this, expected that".
  Status wrong(std::string_view expected) const;
  /// "path: message". Text quoted from the file must go through excerpt() first.
  template <typename... Parts> Status error(const Parts &...parts) const {
    return invalidInput(path.empty() ? "the file" : excerpt(path), ": ", parts...);
  }

  bool isNull() const { return value->is_null(); }
  bool isZero() const { return value->is_number() && *value == 0; }
  bool isText() const { return value->is_string(); }
  bool isObject() const { return value->is_object(); }
  bool isArray() const { return value->is_array(); }

  /// A member; null if it is missing. Fails if this is not an object.
  Result<JsonNode> member(std::string_view name) const;
  /// The elements of an array.
  Result<std::vector<JsonNode>> elements() const;
  /// The object itself, for loops over large ones.
  Result<const nlohmann::json::object_t *> object() const;

  /// The array itself, likewise.
  Result<const nlohmann::json::array_t *> array() const;

  Result<std::string> text() const;
  /// The bytes of a base64 text, padded.
  Result<std::string> bytes() const;
  Result<int64_t> integer(int64_t least, int64_t most) const;

  /// Reads the member of that name, which must exist.
  Status readText(std::string_view name, std::string &target) const;
  Status readFlag(std::string_view name, bool &target) const;
  /// Leaves target unchanged if the member is missing or null.
  Status readOptionalFlag(std::string_view name, bool &target) const;

  const std::string &where() const { return path; }

private:
  JsonNode(const nlohmann::json &jsonValue, std::string jsonPath)
      : value(&jsonValue), path(std::move(jsonPath)) {}

  const nlohmann::json *value;
  std::string path;
};

} // namespace moert
