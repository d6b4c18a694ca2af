// Compiles a JSON schema to rules of a grammar. For JsonSchema.cpp only.
#pragma once

#include "runtime/text/grammar/NumberRules.h"
#include "runtime/text/grammar/SchemaParts.h"
#include "runtime/text/grammar/StringRules.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace moert {

/// The place in a schema that made a rule: building the same grammar another time finds it.
struct RulePlace {
  uint32_t rule;
  std::string path = {};
};

/// References are compiled after the place that needs them, so that schemas can refer to
/// themselves. A place that no value fits has a rule without alternatives.
class SchemaCompiler {
public:
  /// wantedPlace: gets the path of its rule; nullptr: none.
  SchemaCompiler(const SchemaJson &schema, Grammar &built, RulePlace *wantedPlace)
      : root(schema), grammar(built), rules(built), strings(rules), wanted(wantedPlace),
        finder(schema, unenforced) {}

  /// The rule of the schema's values.
  Result<uint32_t> compile();
  /// Why no value fits the schema, where none does.
  std::string emptyReason() const {
    return firstEmpty.empty() ? "#: no value fits the schema" : firstEmpty;
  }
  std::vector<std::string> unenforcedKeywords() const { return unenforced.list(); }

private:
  using Sequence = Grammar::Sequence;
  using Places = std::vector<SchemaPlace>;
  struct Bounds {
    uint32_t least = 0;
    std::optional<uint32_t> most;
  };
  struct Property {
    uint32_t pair;
    bool isRequired;
  };
  /// Properties that a schema does not list: the rule of their names, and schemas of their values.
  struct FurtherProperties {
    uint32_t names;
    Places values;
  };
  struct ObjectSchema;

  /// The rule of values that fit the parts and the schemas at the places.
  Result<uint32_t> ruleOf(SchemaParts parts, const Places &places, const std::string &path);
  Result<uint32_t> ruleWithin(SchemaParts parts, const Places &places, const std::string &path);
  Result<uint32_t> constrained(const SchemaParts &parts, const std::string &path);
  Result<uint32_t> chosen(SchemaParts parts, size_t index, const char *keyword);
  Result<uint32_t> typed(const SchemaParts &parts, const std::string &path);
  Result<uint32_t> ofType(const std::string &type, const SchemaParts &parts,
                          const std::string &path);
  Result<uint32_t> number(bool isInteger, const SchemaParts &parts, const std::string &path);
  Result<uint32_t> string(const SchemaParts &parts);
  Result<uint32_t> array(const SchemaParts &parts, const std::string &path);
  /// Items of their own schemas, and then others.
  Result<uint32_t> listOf(const std::vector<Places> &first, const Places &rest,
                          const Bounds &bounds, const std::string &path);
  uint32_t distinct(const std::vector<std::string> &items, const Bounds &bounds) const;
  Result<uint32_t> object(const SchemaParts &parts, const std::string &path);

  Result<bool> areAllExclusive(const SchemaParts &parts, const Places &at);
  using Texts = std::optional<std::vector<std::string>>;
  /// Texts of the values that enum and const leave; absent: any value.
  Result<Texts> valuesOf(const SchemaParts &parts);
  /// The same for values that are few; absent for others.
  Result<Texts> fewValues(const Places &at);
  Result<NumberRange> rangeOf(const SchemaParts &parts);
  /// Strings that fit the keywords for strings.
  Result<StringSets::Set> stringsOf(const SchemaParts &parts, bool withLengths);
  Result<StringSets::Set> spellingsOf(const SchemaPart &part);
  Result<Bounds> boundsOf(const SchemaParts &parts, const char *least, const char *most);
  /// Bounds that rules can count to.
  Result<Bounds> smallBoundsOf(const SchemaParts &parts, const char *least, const char *most);

  Result<ObjectSchema> readObject(const SchemaParts &parts);
  Result<StringSets::Set> namesOf(const SchemaPart &part);
  std::vector<FurtherProperties> furtherOf(const ObjectSchema &object);
  uint32_t membersOf(const std::vector<Property> &properties, const std::vector<uint32_t> &further,
                     const Bounds &bounds) const;

  void notePlace(uint32_t firstRule, const std::string &path);
  uint32_t never(const std::string &reason);
  void leaveOut(const SchemaPart &part, const char *keyword, const std::string &reason = "");
  void leaveOut(const SchemaParts &parts, const char *keyword);
  uint32_t wrapped(const char *open, uint32_t content, const char *close) const;
  Sequence comma() const;

  struct Reference {
    SchemaParts parts;
    std::string path;
    uint32_t rule;
  };
  using ReferenceKey = std::vector<std::pair<const SchemaJson *, int>>;

  static constexpr uint64_t kMostItems = 1024; // Largest bound of a length or a number of items.

  const SchemaJson &root;
  Grammar &grammar;
  const JsonRules rules;
  StringRules strings;
  UnenforcedKeywords unenforced;
  RulePlace *const wanted;
  SchemaPartFinder finder;
  std::map<ReferenceKey, uint32_t> references;
  std::deque<Reference> pending;
  std::deque<SchemaJson> added; // Schemas that others imply.
  std::string firstEmpty;       // The first place that no value fits; empty: unknown.
  uint32_t depth = 0, placeCount = 0;
};

} // namespace moert
