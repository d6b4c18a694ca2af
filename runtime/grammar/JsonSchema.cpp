#include "runtime/grammar/JsonSchema.h"

#include "runtime/base/Excerpt.h"
#include "runtime/grammar/JsonRules.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace moert {

namespace {

using Json = nlohmann::ordered_json;
using Sequence = Grammar::Sequence;

/// What a grammar may hold, and one enumeration has in texts; kGrammarBuildBytes counts it. Schemas
/// of programs have some thousands.
constexpr size_t kMostElements = 100'000;
constexpr uint64_t kMostItems = 1024; // Largest bound of a length or a number of items.
constexpr uint32_t kMostNesting = 64;
constexpr size_t kMostProperties = 1024; // In one object.
/// Members that are compared to find the places of all references: some tenths of a second.
constexpr uint64_t kMostCompared = uint64_t(1) << 24;

/// Keywords that describe and do not restrict.
const std::set<std::string> kAnnotations = {"title",       "description", "default",  "examples",
                                            "$schema",     "$id",         "$comment", "$defs",
                                            "definitions", "deprecated",  "readOnly", "writeOnly"};

/// The keywords of each type that are kept.
const std::map<std::string, std::set<std::string>> kKeywords = {
    {"object", {"properties", "required", "additionalProperties"}},
    {"array", {"items", "minItems", "maxItems"}},
    {"string", {"minLength", "maxLength"}},
    {"number", {}},
    {"integer", {}},
    {"boolean", {}},
    {"null", {}}};

bool isOfType(const Json &value, const std::string &type) {
  if (type == "object")
    return value.is_object();
  if (type == "array")
    return value.is_array();
  if (type == "string")
    return value.is_string();
  if (type == "number")
    return value.is_number();
  if (type == "integer")
    return value.is_number_integer();
  if (type == "boolean")
    return value.is_boolean();
  return type == "null" && value.is_null();
}

/// The place in a schema that made a rule: building the same grammar another time finds it.
struct RulePlace {
  uint32_t rule;
  std::string path = {};
};

/// Compiles one schema. References are compiled after the place that needs them, so that schemas
/// can refer to themselves.
class SchemaCompiler {
public:
  SchemaCompiler(const Json &schema, Grammar &built, const JsonRules &jsonRules,
                 RulePlace *wantedPlace)
      : root(schema), grammar(built), rules(jsonRules), wanted(wantedPlace) {}

  /// The rule of the schema's values.
  Result<uint32_t> compile() {
    MOERT_ASSIGN_OR_RETURN(uint32_t top, ruleOf(root, "schema"));
    while (!pending.empty()) {
      const Reference next = pending.front();
      pending.pop_front();
      MOERT_ASSIGN_OR_RETURN(uint32_t found, ruleOf(*next.schema, next.name));
      grammar.addAlternative(next.rule, JsonRules::one(found));
    }
    return top;
  }

private:
  struct Reference {
    const Json *schema;
    std::string name;
    uint32_t rule;
  };

  Result<uint32_t> ruleOf(const Json &schema, const std::string &path) {
    if (depth == kMostNesting)
      return invalidInput(path, ": nested more than ", kMostNesting, " levels deep");
    ++depth;
    const uint32_t first = grammar.ruleCount();
    Result<uint32_t> rule = ruleWithin(schema, path);
    --depth;
    // The innermost part of the schema returns first.
    if (wanted && wanted->path.empty() && wanted->rule >= first &&
        wanted->rule < grammar.ruleCount())
      wanted->path = path;
    return rule;
  }

  Result<uint32_t> ruleWithin(const Json &schema, const std::string &path) {
    if (grammar.size() > kMostElements)
      return invalidInput(path, ": the schema is too large");
    if (schema.is_boolean() && schema.get<bool>())
      return rules.value;
    if (!schema.is_object())
      return invalidInput(path, " is ", excerpt(schema.dump()), ", expected an object or true");
    for (const char *name : {"$ref", "anyOf", "allOf", "enum", "const"})
      if (schema.contains(name))
        return combined(schema, name, path);
    return typed(schema, path);
  }

  /// A keyword that says all: others beside it would have to hold as well.
  Result<uint32_t> combined(const Json &schema, const std::string &name, const std::string &path) {
    const bool listsValues = name == "enum" || name == "const";
    for (const auto &member : schema.items())
      if (member.key() != name && !kAnnotations.contains(member.key()) &&
          !(listsValues && member.key() == "type"))
        return invalidInput(path, ": '", excerpt(member.key()), "' beside '", name,
                            "' is not supported");
    const Json &value = schema[name];
    if (name == "$ref")
      return referenced(value, path);
    if (name == "const")
      return values(Json::array({value}), schema, path);
    if (!value.is_array() || value.empty())
      return invalidInput(path, ".", name, ": expected an array that is not empty");
    if (name == "enum")
      return values(value, schema, path);
    if (name == "allOf" && value.size() != 1)
      return invalidInput(path, ": 'allOf' of ", value.size(),
                          " schemas is not supported, only of 1");
    const uint32_t rule = grammar.addRule();
    std::set<std::string> seen;
    for (size_t i = 0; i < value.size(); ++i) {
      if (!seen.insert(value[i].dump()).second)
        continue; // Another way to read the same texts.
      MOERT_ASSIGN_OR_RETURN(uint32_t one, ruleOf(value[i], strCat(path, ".", name, "[", i, "]")));
      grammar.addAlternative(rule, JsonRules::one(one));
    }
    return rule;
  }

  Result<uint32_t> referenced(const Json &reference, const std::string &path) {
    const std::string name = reference.is_string() ? reference.get<std::string>() : "";
    if (name.empty() || name[0] != '#')
      return invalidInput(path, ".$ref: ", excerpt(reference.dump()),
                          ", expected a place in this schema, such as \"#/$defs/name\"");
    if (const auto known = references.find(name); known != references.end())
      return known->second;
    MOERT_ASSIGN_OR_RETURN(const Json *schema, placeOf(name, path));
    const uint32_t rule = grammar.addRule();
    references[name] = rule;
    pending.push_back({schema, excerpt(name), rule});
    return rule;
  }

  Result<const Json *> placeOf(const std::string &name, const std::string &path) {
    const Json *place = &root;
    for (size_t begin = 1; begin < name.size();) {
      const size_t end = std::min(name.find('/', begin + 1), name.size());
      std::string key = name.substr(begin + 1, end - begin - 1);
      for (const auto &[escaped, plain] : {std::pair{"~1", "/"}, std::pair{"~0", "~"}})
        for (size_t at = 0; (at = key.find(escaped, at)) != std::string::npos; ++at)
          key.replace(at, 2, plain);
      compared += place->size();
      if (compared > kMostCompared)
        return invalidInput(path, ".$ref: finding the places of all references compares more than ",
                            kMostCompared,
                            " members; expected fewer references or smaller objects");
      if (name[begin] != '/' || !place->is_object() || !place->contains(key))
        return invalidInput(path, ".$ref: there is no ", excerpt(name), " in this schema");
      place = &(*place)[key];
      begin = end;
    }
    return place;
  }

  Result<uint32_t> values(const Json &list, const Json &schema, const std::string &path) {
    MOERT_ASSIGN_OR_RETURN(std::vector<std::string> types, typesOf(schema, path));
    std::vector<std::string> texts;
    size_t bytes = 0;
    for (const Json &value : list) {
      if (!types.empty() && std::none_of(types.begin(), types.end(), [&](const std::string &type) {
            return isOfType(value, type);
          }))
        continue;
      texts.push_back(value.dump());
      bytes += texts.back().size();
    }
    if (bytes > kMostElements)
      return invalidInput(path, ": the values have ", bytes, " bytes, expected at most ",
                          kMostElements);
    if (texts.empty())
      return invalidInput(path, ": no value has the type that 'type' asks for");
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    return rules.oneOf(texts, 0);
  }

  /// Empty: any.
  static Result<std::vector<std::string>> typesOf(const Json &schema, const std::string &path) {
    std::vector<std::string> types;
    if (!schema.contains("type"))
      return types;
    const Json &type = schema["type"];
    const std::vector<Json> list =
        type.is_array() ? type.get<std::vector<Json>>() : std::vector<Json>{type};
    for (const Json &one : list) {
      if (!one.is_string() || !kKeywords.contains(one.get<std::string>()))
        return invalidInput(path, ".type: ", excerpt(one.dump()),
                            ", expected object, array, string, number, integer, boolean or null");
      types.push_back(one.get<std::string>());
    }
    if (types.empty())
      return invalidInput(path, ".type: expected at least one type");
    return types;
  }

  Result<uint32_t> typed(const Json &schema, const std::string &path) {
    MOERT_ASSIGN_OR_RETURN(std::vector<std::string> types, typesOf(schema, path));
    for (const auto &member : schema.items()) {
      const std::string &key = member.key();
      if (key == "type" || kAnnotations.contains(key))
        continue;
      const auto owner = std::find_if(kKeywords.begin(), kKeywords.end(),
                                      [&](const auto &type) { return type.second.contains(key); });
      if (owner == kKeywords.end())
        return invalidInput(path, ": the keyword '", excerpt(key), "' is not supported");
      if (!schema.contains("type") &&
          std::find(types.begin(), types.end(), owner->first) == types.end())
        types.push_back(owner->first);
    }
    if (types.empty())
      return rules.value;
    const uint32_t rule = grammar.addRule();
    for (const std::string &type : types) {
      MOERT_ASSIGN_OR_RETURN(uint32_t one, ofType(type, schema, path));
      grammar.addAlternative(rule, JsonRules::one(one));
    }
    return rule;
  }

  Result<uint32_t> ofType(const std::string &type, const Json &schema, const std::string &path) {
    if (type == "object")
      return object(schema, path);
    if (type == "array")
      return array(schema, path);
    if (type == "string")
      return string(schema, path);
    return type == "number"    ? rules.number
           : type == "integer" ? rules.integer
           : type == "boolean" ? rules.boolean
                               : rules.null;
  }

  struct Bounds {
    uint64_t least = 0;
    std::optional<uint64_t> most;
  };

  static Result<Bounds> boundsOf(const Json &schema, const char *least, const char *most,
                                 const std::string &path) {
    Bounds bounds;
    for (const char *name : {least, most}) {
      if (!schema.contains(name))
        continue;
      const Json &value = schema[name];
      if (!value.is_number_unsigned() || value.get<uint64_t>() > kMostItems)
        return invalidInput(path, ".", name, ": ", excerpt(value.dump()),
                            ", expected a whole number of at most ", kMostItems);
      if (name == least)
        bounds.least = value.get<uint64_t>();
      else
        bounds.most = value.get<uint64_t>();
    }
    if (bounds.most && *bounds.most < bounds.least)
      return invalidInput(path, ": '", most, "' ", *bounds.most, " is below '", least, "' ",
                          bounds.least);
    return bounds;
  }

  Result<uint32_t> string(const Json &schema, const std::string &path) {
    MOERT_ASSIGN_OR_RETURN(Bounds bounds, boundsOf(schema, "minLength", "maxLength", path));
    uint32_t rest = bounds.most ? upToCharacters(*bounds.most - bounds.least) : rules.characters;
    for (uint64_t i = 0; i < bounds.least; ++i)
      rest = rules.newRule({{Grammar::ruleOf(rules.character), Grammar::ruleOf(rest)}});
    return rules.newRule(
        {JsonRules::join({rules.text("\""), JsonRules::one(rest), rules.text("\"")})});
  }

  /// At most so many characters: one rule for all strings that end alike.
  uint32_t upToCharacters(uint64_t count) {
    if (upTo.empty())
      upTo.push_back(rules.newRule({{}}));
    while (upTo.size() <= count)
      upTo.push_back(
          rules.newRule({{Grammar::ruleOf(rules.character), Grammar::ruleOf(upTo.back())}, {}}));
    return upTo[count];
  }

  Result<uint32_t> array(const Json &schema, const std::string &path) {
    MOERT_ASSIGN_OR_RETURN(Bounds bounds, boundsOf(schema, "minItems", "maxItems", path));
    uint32_t item = rules.value;
    if (schema.contains("items")) {
      MOERT_ASSIGN_OR_RETURN(item, ruleOf(schema["items"], path + ".items"));
    }
    if (bounds.least == 0 && !bounds.most)
      return rules.freeArray(item);
    const Sequence next =
        JsonRules::join({rules.text(","), JsonRules::one(rules.space), JsonRules::one(item)});
    uint32_t rest = rules.newRule({{}});
    if (!bounds.most) {
      rest = grammar.addRule();
      grammar.addAlternative(rest, JsonRules::join({next, JsonRules::one(rest)}));
      grammar.addAlternative(rest, {});
    }
    // rest: after i items.
    for (uint64_t i = bounds.most.value_or(std::max<uint64_t>(bounds.least, 1)); i-- > 1;) {
      const Sequence more = JsonRules::join({next, JsonRules::one(rest)});
      rest = i < bounds.least ? rules.newRule({more}) : rules.newRule({more, {}});
    }
    std::vector<Sequence> items;
    if (bounds.most != 0u)
      items.push_back({Grammar::ruleOf(item), Grammar::ruleOf(rest)});
    if (bounds.least == 0)
      items.push_back({});
    return wrapped("[", rules.newRule(items), "]");
  }

  uint32_t wrapped(std::string_view open, uint32_t content, std::string_view close) const {
    return rules.newRule(
        {JsonRules::join({rules.text(open), JsonRules::one(rules.space), JsonRules::one(content),
                          JsonRules::one(rules.space), rules.text(close)})});
  }

  struct Property {
    Sequence pair;
    bool isRequired;
  };

  Result<uint32_t> object(const Json &schema, const std::string &path) {
    bool isFree = true; // Further properties are allowed.
    uint32_t further = rules.value;
    if (const auto found = schema.find("additionalProperties"); found != schema.end()) {
      isFree = *found != false;
      if (isFree) {
        MOERT_ASSIGN_OR_RETURN(further, ruleOf(*found, path + ".additionalProperties"));
      }
    }
    std::vector<Property> properties;
    MOERT_RETURN_IF_ERROR(
        readProperties(schema, path, isFree ? std::optional(further) : std::nullopt, properties));
    if (properties.size() > kMostProperties)
      return invalidInput(path, ": ", properties.size(), " properties, expected at most ",
                          kMostProperties);
    if (properties.empty() && isFree)
      return rules.freeObject(further);
    return wrapped("{", membersOf(properties), "}");
  }

  Sequence pairOf(const std::string &name, uint32_t value) const {
    return JsonRules::join({rules.text(Json(name).dump()), rules.text(":"),
                            JsonRules::one(rules.space), JsonRules::one(value)});
  }

  Status readProperties(const Json &schema, const std::string &path,
                        std::optional<uint32_t> further, std::vector<Property> &properties) {
    std::vector<std::string> required;
    if (const auto found = schema.find("required"); found != schema.end()) {
      if (!found->is_array() || !std::all_of(found->begin(), found->end(),
                                             [](const Json &one) { return one.is_string(); }))
        return invalidInput(path, ".required: expected an array of strings");
      required = found->get<std::vector<std::string>>();
    }
    std::set<std::string> missing(required.begin(), required.end());
    const std::set<std::string> all = missing;
    if (const auto found = schema.find("properties"); found != schema.end()) {
      if (!found->is_object())
        return invalidInput(path, ".properties: expected an object");
      for (const auto &member : found->items()) {
        MOERT_ASSIGN_OR_RETURN(
            uint32_t value,
            ruleOf(member.value(), strCat(path, ".properties.", excerpt(member.key()))));
        properties.push_back({pairOf(member.key(), value), all.contains(member.key())});
        missing.erase(member.key());
      }
    }
    for (const std::string &name : required) {
      if (missing.erase(name) == 0)
        continue;
      if (!further)
        return invalidInput(path, ".required: '", excerpt(name),
                            "' is not among the properties, and no others are allowed");
      properties.push_back({pairOf(name, *further), true});
    }
    return {};
  }

  // From the last property: `first` where none was written before it, `rest` where one was.
  uint32_t membersOf(const std::vector<Property> &properties) const {
    uint32_t first = rules.newRule({{}}), rest = first;
    const Sequence comma = JsonRules::join({rules.text(","), JsonRules::one(rules.space)});
    for (size_t i = properties.size(); i-- > 0;) {
      std::vector<Sequence> begins = {JsonRules::join({properties[i].pair, JsonRules::one(rest)})};
      std::vector<Sequence> follows = {
          JsonRules::join({comma, properties[i].pair, JsonRules::one(rest)})};
      if (!properties[i].isRequired) {
        begins.push_back(JsonRules::one(first));
        follows.push_back(JsonRules::one(rest));
      }
      first = rules.newRule(begins);
      rest = rules.newRule(follows);
    }
    return first;
  }

  const Json &root;
  Grammar &grammar;
  const JsonRules &rules;
  RulePlace *const wanted; // nullptr: none.
  std::map<std::string, uint32_t> references;
  std::vector<uint32_t> upTo; // Entry i: at most i characters.
  std::deque<Reference> pending;
  uint32_t depth = 0;
  uint64_t compared = 0; // Members, for references.
};

/// Builds a grammar twice where it has a fault, the second time to name the place.
template <class Build> Result<Grammar> checkedGrammar(const Build &build) {
  Grammar grammar;
  MOERT_RETURN_IF_ERROR(build(grammar, nullptr));
  if (const std::optional<Grammar::Fault> fault = grammar.findFault()) {
    grammar = Grammar();
    RulePlace place = {fault->rule};
    MOERT_RETURN_IF_ERROR(build(grammar, &place));
    return invalidInput(place.path.empty() ? "schema" : place.path, ": ", fault->reason);
  }
  grammar.shrink();
  return grammar;
}

} // namespace

Grammar grammarOfJsonObject() {
  Grammar grammar;
  const uint32_t top = grammar.addRule();
  const JsonRules rules(grammar);
  grammar.addAlternative(top, JsonRules::one(rules.object));
  grammar.shrink();
  return grammar;
}

Result<Grammar> grammarOfSchema(const nlohmann::ordered_json &schema) {
  return checkedGrammar([&](Grammar &grammar, RulePlace *place) -> Status {
    const uint32_t text = grammar.addRule();
    const JsonRules rules(grammar);
    MOERT_ASSIGN_OR_RETURN(uint32_t top, SchemaCompiler(schema, grammar, rules, place).compile());
    grammar.addAlternative(text, JsonRules::one(top));
    return {};
  });
}

Result<Grammar> grammarOfCall(std::span<const FunctionSchema> functions) {
  static const Json kNoParameters = {
      {"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  return checkedGrammar([&](Grammar &grammar, RulePlace *place) -> Status {
    const uint32_t call = grammar.addRule();
    const JsonRules rules(grammar);
    for (const FunctionSchema &function : functions) {
      const std::string context = strCat("function '", excerpt(function.name), "'");
      const bool wasPlaced = place && !place->path.empty();
      const Json &parameters = function.parameters ? *function.parameters : kNoParameters;
      Result<uint32_t> arguments = SchemaCompiler(parameters, grammar, rules, place).compile();
      if (!arguments.isOk())
        return Status(arguments.status()).withContext(context);
      if (place && !place->path.empty() && !wasPlaced)
        place->path = context + ": " + place->path;
      Sequence sequence;
      grammar.appendText(sequence,
                         strCat("{\"name\": ", Json(function.name).dump(), ", \"arguments\": "));
      sequence.push_back(Grammar::ruleOf(*arguments));
      grammar.appendText(sequence, "}");
      grammar.addAlternative(call, sequence);
    }
    return {};
  });
}

} // namespace moert
