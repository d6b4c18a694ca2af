#include "runtime/grammar/JsonSchema.h"

#include "runtime/base/Excerpt.h"

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
using Element = Grammar::Element;

/// Digits of a number before and after its point: all that a double keeps.
constexpr uint32_t kDigits = 16;
constexpr uint32_t kIndent = 20; // Most spaces of white space after a line break.
/// What a grammar may hold; a schema of 1 MiB has far less.
constexpr size_t kMostElements = 400'000;
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

/// The grammar of JSON without a schema, whose rules those of a schema refer to.
class JsonRules {
public:
  explicit JsonRules(Grammar &built) : grammar(built) {
    space = newRule({{}, text(" ")});
    Sequence line = text("\n");
    line.push_back(upTo(kIndent, set(" ")));
    grammar.addAlternative(space, line);
    makeString();
    makeNumbers();
    makeValues();
  }

  uint32_t newRule(const std::vector<Sequence> &alternatives) const {
    const uint32_t rule = grammar.addRule();
    for (const Sequence &alternative : alternatives)
      grammar.addAlternative(rule, alternative);
    return rule;
  }
  Sequence text(std::string_view bytes) const {
    Sequence sequence;
    grammar.appendText(sequence, bytes);
    return sequence;
  }
  static Sequence join(const std::vector<Sequence> &parts) {
    Sequence all;
    for (const Sequence &part : parts)
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  static Sequence one(uint32_t rule) { return {Grammar::ruleOf(rule)}; }

  /// {"key": value, ...} with any keys.
  uint32_t freeObject(uint32_t valueRule) const {
    const uint32_t pair = newRule({join({one(string), text(":"), one(space), one(valueRule)})});
    return list("{", pair, "}");
  }
  uint32_t freeArray(uint32_t valueRule) const { return list("[", valueRule, "]"); }

  /// One of the texts from their byte `begin` on, before which they are equal; sorted, without
  /// duplicates. Equal beginnings are written once, so that a state has one way to follow them.
  uint32_t oneOf(std::span<const std::string> texts, size_t begin) const {
    const uint32_t rule = grammar.addRule();
    for (size_t first = 0, last = 0; first < texts.size(); first = last) {
      const std::string_view text = std::string_view(texts[first]).substr(begin);
      if (text.empty()) {
        grammar.addAlternative(rule, {});
        last = first + 1;
        continue;
      }
      while (last < texts.size() && texts[last].size() > begin && texts[last][begin] == text[0])
        ++last;
      // Sorted: what the first and the last share, all between them share.
      const std::string_view other = std::string_view(texts[last - 1]).substr(begin);
      const auto differ = std::mismatch(text.begin(), text.end(), other.begin(), other.end());
      const auto shared = static_cast<size_t>(differ.first - text.begin());
      Sequence sequence = this->text(text.substr(0, shared));
      if (last - first > 1)
        sequence.push_back(
            Grammar::ruleOf(oneOf(texts.subspan(first, last - first), begin + shared)));
      grammar.addAlternative(rule, sequence);
    }
    return rule;
  }

  Grammar &grammar;
  uint32_t space = 0, character = 0, characters = 0, string = 0, integer = 0, number = 0,
           boolean = 0, null = 0, value = 0, object = 0, array = 0;

private:
  Element set(std::string_view bytes) const {
    ByteSet wanted;
    for (char byte : bytes)
      wanted.add(static_cast<unsigned char>(byte));
    return grammar.bytes(wanted);
  }
  Element range(unsigned char first, unsigned char last) const {
    ByteSet wanted;
    wanted.add(first, last);
    return grammar.bytes(wanted);
  }
  /// At most `count` times the element.
  Element upTo(uint32_t count, Element element) const {
    uint32_t rest = newRule({{}});
    for (uint32_t i = 0; i < count; ++i)
      rest = newRule({{element, Grammar::ruleOf(rest)}, {}});
    return Grammar::ruleOf(rest);
  }

  uint32_t list(std::string_view open, uint32_t item, std::string_view close) const {
    const uint32_t more = grammar.addRule();
    grammar.addAlternative(more, join({text(","), one(space), one(item), one(more)}));
    grammar.addAlternative(more, {});
    const uint32_t items = newRule({join({one(item), one(more)}), {}});
    return newRule({join({text(open), one(space), one(items), one(space), text(close)})});
  }

  // Valid UTF-8 without control characters, and escapes that are no half of a surrogate pair.
  void makeString() {
    const Element tail = range(0x80, 0xBF), hex = set("0123456789abcdefABCDEF");
    ByteSet plain;
    plain.add(0x20, 0x21);
    plain.add(0x23, 0x5B);
    plain.add(0x5D, 0x7E);
    const Sequence escape = text("\\"), unicode = text("\\u");
    character = newRule({{grammar.bytes(plain)},
                         {range(0xC2, 0xDF), tail},
                         {range(0xE0, 0xE0), range(0xA0, 0xBF), tail},
                         {range(0xE1, 0xEC), tail, tail},
                         {range(0xED, 0xED), range(0x80, 0x9F), tail},
                         {range(0xEE, 0xEF), tail, tail},
                         {range(0xF0, 0xF0), range(0x90, 0xBF), tail, tail},
                         {range(0xF1, 0xF3), tail, tail, tail},
                         {range(0xF4, 0xF4), range(0x80, 0x8F), tail, tail},
                         join({escape, {set("\"\\/bfnrt")}}),
                         join({unicode, {set("0123456789abcefABCEF"), hex, hex, hex}}),
                         join({unicode, {set("dD"), set("01234567"), hex, hex}})});
    characters = grammar.addRule();
    grammar.addAlternative(characters, join({one(character), one(characters)}));
    grammar.addAlternative(characters, {});
    string = newRule({join({text("\""), one(characters), text("\"")})});
  }

  void makeNumbers() {
    const Element digit = range('0', '9'), nonZero = range('1', '9');
    const Element sign = Grammar::ruleOf(newRule({{}, text("-")}));
    integer = newRule({join({{sign}, text("0")}), {sign, nonZero, upTo(kDigits - 1, digit)}});
    const uint32_t fraction = newRule({{}, join({text("."), {digit, upTo(kDigits - 1, digit)}})});
    const Element exponentSign = Grammar::ruleOf(newRule({{}, {set("+-")}}));
    const uint32_t exponent = newRule({{}, {set("eE"), exponentSign, digit, upTo(1, digit)}});
    number = newRule({join({one(integer), one(fraction), one(exponent)})});
  }

  void makeValues() {
    boolean = newRule({text("true"), text("false")});
    null = newRule({text("null")});
    value = grammar.addRule();
    object = freeObject(value);
    array = freeArray(value);
    for (uint32_t rule : {object, array, string, number, boolean, null})
      grammar.addAlternative(value, one(rule));
  }
};

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

/// Compiles one schema. References are compiled after the place that needs them, so that schemas
/// can refer to themselves.
class SchemaCompiler {
public:
  SchemaCompiler(const Json &schema, Grammar &built)
      : root(schema), grammar(built), top(grammar.addRule()), rules(grammar) {}

  /// The rule of the schema's values.
  Result<uint32_t> compile() {
    MOERT_ASSIGN_OR_RETURN(uint32_t rule, ruleOf(root, "schema"));
    grammar.addAlternative(top, JsonRules::one(rule));
    while (!pending.empty()) {
      const Reference next = pending.front();
      pending.pop_front();
      MOERT_ASSIGN_OR_RETURN(uint32_t found, ruleOf(*next.schema, next.name));
      grammar.addAlternative(next.rule, JsonRules::one(found));
    }
    MOERT_RETURN_IF_ERROR(grammar.check().withContext("schema"));
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
    Result<uint32_t> rule = ruleWithin(schema, path);
    --depth;
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
    for (size_t i = 0; i < value.size(); ++i) {
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
    for (const Json &value : list) {
      if (!types.empty() && std::none_of(types.begin(), types.end(), [&](const std::string &type) {
            return isOfType(value, type);
          }))
        continue;
      texts.push_back(value.dump());
    }
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
    uint32_t rest = bounds.most ? rules.newRule({{}}) : rules.characters;
    const uint64_t last = bounds.most.value_or(bounds.least);
    for (uint64_t i = last; i-- > 0;) {
      const Sequence more = {Grammar::ruleOf(rules.character), Grammar::ruleOf(rest)};
      rest = i < bounds.least ? rules.newRule({more}) : rules.newRule({more, {}});
    }
    return rules.newRule(
        {JsonRules::join({rules.text("\""), JsonRules::one(rest), rules.text("\"")})});
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
  const uint32_t top;
  JsonRules rules;
  std::map<std::string, uint32_t> references;
  std::deque<Reference> pending;
  uint32_t depth = 0;
  uint64_t compared = 0; // Members, for references.
};

} // namespace

Grammar grammarOfJsonObject() {
  Grammar grammar;
  const uint32_t top = grammar.addRule();
  const JsonRules rules(grammar);
  grammar.addAlternative(top, JsonRules::one(rules.object));
  return grammar;
}

Result<Grammar> grammarOfSchema(const nlohmann::ordered_json &schema) {
  Grammar grammar;
  MOERT_RETURN_IF_ERROR(SchemaCompiler(schema, grammar).compile().status());
  return grammar;
}

Result<Grammar> grammarOfCall(std::span<const FunctionSchema> functions) {
  static const Json kNoParameters = {
      {"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  Grammar grammar;
  const uint32_t call = grammar.addRule();
  for (const FunctionSchema &function : functions) {
    const Json &parameters = function.parameters ? *function.parameters : kNoParameters;
    Result<uint32_t> arguments = SchemaCompiler(parameters, grammar).compile();
    if (!arguments.isOk())
      return Status(arguments.status())
          .withContext(strCat("function '", excerpt(function.name), "'"));
    Sequence sequence;
    grammar.appendText(sequence,
                       strCat("{\"name\": ", Json(function.name).dump(), ", \"arguments\": "));
    sequence.push_back(Grammar::ruleOf(*arguments));
    grammar.appendText(sequence, "}");
    grammar.addAlternative(call, sequence);
  }
  return grammar;
}

} // namespace moert
