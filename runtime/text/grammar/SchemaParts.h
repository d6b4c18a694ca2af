// The schemas that a value has to fit at one place, and how they are found: by references and
// conjunctions.
#pragma once

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

using SchemaJson = nlohmann::ordered_json;

/// A schema and its place, as a JSON pointer.
struct SchemaPlace {
  const SchemaJson *schema;
  std::string path;

  SchemaPlace at(std::string_view key) const { return {&(*schema)[key], pathOf(key)}; }
  SchemaPlace at(std::string_view key, size_t index) const {
    return {&(*schema)[key][index], strCat(pathOf(key), "/", index)};
  }
  std::string pathOf(std::string_view key) const;
};

/// One of the schemas at a place; an object, or false. The flags: one alternative of its keyword is
/// among the others.
struct SchemaPart : SchemaPlace {
  bool choseAny = false, choseOne = false;

  /// The member, unless it is absent.
  const SchemaJson *find(std::string_view keyword) const;
  bool restricts() const;
};
using SchemaParts = std::vector<SchemaPart>;

/// The keywords of each type that are kept.
const std::map<std::string, std::set<std::string>, std::less<>> &typeKeywords();

/// Keywords with their places that are not kept: so many bytes of them, and whether there are
/// others.
class UnenforcedKeywords {
public:
  static constexpr size_t kMostBytes = 2048;

  void add(const std::string &keyword);
  /// In their order, and "and others" if there are.
  std::vector<std::string> list() const;

private:
  std::set<std::string> keywords;
  size_t bytes = 0;
  bool areMore = false;
};

/// Finds the parts of one schema. It must outlive the finder.
class SchemaPartFinder {
public:
  /// unenforced: gets the keywords that restrict and are not kept.
  SchemaPartFinder(const SchemaJson &schema, UnenforcedKeywords &unenforcedKeywords)
      : root(schema), unenforced(unenforcedKeywords) {}

  /// Adds what the schema consists of: itself, what it refers to, and the members of its allOf.
  /// Returns whether it refers to anything.
  Result<bool> add(const SchemaPlace &place, SchemaParts &parts);
  /// What the "$ref" of a schema refers to.
  Result<const SchemaJson *> placeOf(const SchemaPlace &place);
  /// Counts members that are compared. Fails where there are very many.
  Status count(uint64_t members, const std::string &path);

private:
  Status add(const SchemaPlace &place, SchemaParts &parts, std::vector<const SchemaJson *> &active);
  Status checkKeywords(const SchemaPlace &place);

  const SchemaJson &root;
  UnenforcedKeywords &unenforced;
  uint64_t compared = 0; // Members.
  bool hasReference = false;
};

/// Types that a part has; absent: any.
Result<std::optional<std::set<std::string>>> typesOf(const SchemaPart &part);
bool isOfType(const SchemaJson &value, const std::string &type);

/// The values of a keyword, "enum" or "const"; nullptr: any.
const SchemaJson *valuesOf(const SchemaPart &part, std::string_view keyword, SchemaJson &storage);

/// What the parts of a place say that could tell values from others.
struct SchemaOutline {
  std::optional<std::set<std::string>> types;
  /// By texts that equal values have in common.
  std::optional<std::map<std::string, SchemaJson>> values;
  std::map<std::string, std::vector<SchemaPlace>> properties;
  std::set<std::string> required;
  bool isOpen = false; // Objects may have other properties.
};
Result<SchemaOutline> outlineOf(SchemaPartFinder &finder, const SchemaParts &parts);

/// Whether no text that is generated for `made` fits `other`, as far as types, values and required
/// properties show it.
Result<bool> excludes(SchemaPartFinder &finder, const SchemaOutline &made,
                      const SchemaOutline &other, uint32_t depth = 0);

} // namespace moert
