#include "runtime/text/grammar/SchemaParts.h"

#include "runtime/base/Excerpt.h"

#include <algorithm>
#include <charconv>

namespace moert {

/// Members that are compared to find the parts of all places: some tenths of a second.
constexpr uint64_t kMostCompared = uint64_t(1) << 24;
constexpr size_t kMostReferences = 512; // One after the other, before anything else.

/// Keywords that describe and do not restrict, and those that hold other schemas.
static const std::set<std::string, std::less<>> kAnnotations = {
    "title",       "description", "default",   "examples",      "example",
    "$schema",     "$id",         "$comment",  "$defs",         "definitions",
    "deprecated",  "readOnly",    "writeOnly", "discriminator", "contentMediaType",
    "$vocabulary", "$anchor",     "id",        "contentSchema", "contentEncoding"};
static const std::set<std::string, std::less<>> kCombiners = {"$ref", "allOf", "anyOf", "oneOf",
                                                              "enum", "const", "type",  "nullable"};

const std::map<std::string, std::set<std::string>, std::less<>> &typeKeywords() {
  static const std::set<std::string> kNumbers = {"minimum", "maximum", "exclusiveMinimum",
                                                 "exclusiveMaximum", "multipleOf"};
  static const std::map<std::string, std::set<std::string>, std::less<>> kKeywords = {
      {"object",
       {"properties", "required", "additionalProperties", "patternProperties", "propertyNames",
        "minProperties", "maxProperties"}},
      {"array", {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"}},
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"number", kNumbers},
      {"integer", {}}, // Those of a number.
      {"boolean", {}},
      {"null", {}}};
  return kKeywords;
}

static bool isTypeKeyword(const std::string &key) {
  return std::any_of(typeKeywords().begin(), typeKeywords().end(),
                     [&](const auto &type) { return type.second.contains(key); });
}

std::string SchemaPlace::pathOf(std::string_view key) const {
  std::string escaped;
  for (char byte : excerpt(key))
    escaped += byte == '~' ? "~0" : byte == '/' ? "~1" : std::string(1, byte);
  return path + "/" + escaped;
}

const SchemaJson *SchemaPart::find(std::string_view keyword) const {
  if (!schema->is_object())
    return nullptr;
  const auto found = schema->find(keyword);
  return found == schema->end() ? nullptr : &*found;
}

bool SchemaPart::restricts() const {
  if (schema->is_boolean())
    return true;
  for (const auto &member : schema->items()) {
    const std::string &key = member.key();
    if (key == "$ref" || key == "allOf" || (key == "anyOf" && choseAny) ||
        (key == "oneOf" && choseOne))
      continue;
    if (kCombiners.contains(key) || isTypeKeyword(key))
      return true;
  }
  return false;
}

void UnenforcedKeywords::add(const std::string &keyword) {
  if (areMore || keywords.contains(keyword))
    return;
  areMore = bytes + keyword.size() > kMostBytes;
  if (areMore)
    return;
  bytes += keyword.size();
  keywords.insert(keyword);
}

std::vector<std::string> UnenforcedKeywords::list() const {
  std::vector<std::string> all(keywords.begin(), keywords.end());
  if (areMore)
    all.emplace_back("and others");
  return all;
}

Status SchemaPartFinder::count(uint64_t members, const std::string &path) {
  compared += members;
  if (compared > kMostCompared)
    return invalidInput(path, ": finding the places of all references compares more than ",
                        kMostCompared, " members; expected fewer references or smaller objects");
  return {};
}

Result<bool> SchemaPartFinder::add(const SchemaPlace &place, SchemaParts &parts) {
  std::vector<const SchemaJson *> active;
  hasReference = false;
  MOERT_RETURN_IF_ERROR(add(place, parts, active));
  return hasReference;
}

Status SchemaPartFinder::add(const SchemaPlace &place, SchemaParts &parts,
                             std::vector<const SchemaJson *> &active) {
  const SchemaJson &schema = *place.schema;
  if (schema.is_boolean()) {
    if (!schema.get<bool>())
      parts.push_back({place});
    return {};
  }
  if (!schema.is_object())
    return invalidInput(place.path, " is ", excerpt(schema.dump()),
                        ", expected an object or a boolean");
  if (std::find(active.begin(), active.end(), &schema) != active.end())
    return invalidInput(place.path, ": it refers to itself without any text between");
  if (active.size() == kMostReferences)
    return invalidInput(place.path, ": more than ", kMostReferences,
                        " references follow each other");
  MOERT_RETURN_IF_ERROR(count(schema.size() + parts.size(), place.path));
  active.push_back(&schema);
  if (schema.contains("$ref")) {
    hasReference = true;
    MOERT_ASSIGN_OR_RETURN(const SchemaJson *target, placeOf(place));
    MOERT_RETURN_IF_ERROR(add({target, excerpt(schema["$ref"].get<std::string>())}, parts, active));
  }
  if (const auto all = schema.find("allOf"); all != schema.end()) {
    if (!all->is_array())
      return invalidInput(place.path, "/allOf: expected an array");
    for (size_t i = 0; i < all->size(); ++i)
      MOERT_RETURN_IF_ERROR(add(place.at("allOf", i), parts, active));
  }
  active.pop_back();
  MOERT_RETURN_IF_ERROR(checkKeywords(place));
  const SchemaPart part = {place};
  const bool isKnown = std::any_of(parts.begin(), parts.end(), [&](const SchemaPart &other) {
    return other.schema == &schema && !other.choseAny && !other.choseOne;
  });
  if (!isKnown && part.restricts())
    parts.push_back(part);
  return {};
}

Status SchemaPartFinder::checkKeywords(const SchemaPlace &place) {
  for (const auto &member : place.schema->items()) {
    const std::string &key = member.key();
    if (kAnnotations.contains(key) || kCombiners.contains(key) || isTypeKeyword(key) ||
        key.starts_with("x-"))
      continue;
    unenforced.add(strCat(place.path, ": ", excerpt(key)));
  }
  return {};
}

/// A text of a URI without its escapes: "%25" is "%".
static std::string decoded(std::string text) {
  for (size_t at = 0; (at = text.find('%', at)) != std::string::npos; ++at) {
    const char *const begin = text.data() + at + 1;
    unsigned value = 0;
    if (text.size() - at > 2 && std::from_chars(begin, begin + 2, value, 16).ptr == begin + 2)
      text.replace(at, 3, 1, static_cast<char>(value));
  }
  return text;
}

Result<const SchemaJson *> SchemaPartFinder::placeOf(const SchemaPlace &place) {
  const SchemaJson &reference = (*place.schema)["$ref"];
  const std::string name = reference.is_string() ? decoded(reference.get<std::string>()) : "";
  const std::string path = place.pathOf("$ref");
  if (name.empty() || name[0] != '#')
    return invalidInput(path, ": ", excerpt(reference.dump()),
                        ", expected a place in this schema, such as \"#/$defs/name\"");
  const SchemaJson *found = &root;
  for (size_t begin = 1; begin < name.size();) {
    const size_t end = std::min(name.find('/', begin + 1), name.size());
    std::string key = name.substr(begin + 1, end - begin - 1);
    for (const auto &[escaped, plain] : {std::pair{"~1", "/"}, std::pair{"~0", "~"}})
      for (size_t at = 0; (at = key.find(escaped, at)) != std::string::npos; ++at)
        key.replace(at, 2, plain);
    MOERT_RETURN_IF_ERROR(count(found->size(), path));
    size_t index = SIZE_MAX;
    std::from_chars(key.data(), key.data() + key.size(), index);
    const bool isThere =
        found->is_object() ? found->contains(key) : found->is_array() && index < found->size();
    if (name[begin] != '/' || !isThere)
      return invalidInput(path, ": there is no ", excerpt(name), " in this schema");
    found = found->is_object() ? &(*found)[key] : &(*found)[index];
    begin = end;
  }
  return found;
}

Result<std::optional<std::set<std::string>>> typesOf(const SchemaPart &part) {
  const SchemaJson *type = part.find("type");
  if (!type)
    return std::optional<std::set<std::string>>();
  std::set<std::string> types;
  for (const SchemaJson &one : type->is_array() ? *type : SchemaJson::array({*type})) {
    if (!one.is_string() || !typeKeywords().contains(one.get<std::string>()))
      return invalidInput(part.pathOf("type"), ": ", excerpt(one.dump()),
                          ", expected object, array, string, number, integer, boolean or null");
    types.insert(one.get<std::string>());
  }
  if (types.empty())
    return invalidInput(part.pathOf("type"), ": expected at least one type");
  if (types.contains("number"))
    types.erase("integer");
  if (const SchemaJson *nullable = part.find("nullable"); nullable && *nullable == true)
    types.insert("null");
  return std::optional(types);
}

bool isOfType(const SchemaJson &value, const std::string &type) {
  switch (value.type()) {
  case SchemaJson::value_t::object:
    return type == "object";
  case SchemaJson::value_t::array:
    return type == "array";
  case SchemaJson::value_t::string:
    return type == "string";
  case SchemaJson::value_t::boolean:
    return type == "boolean";
  case SchemaJson::value_t::null:
    return type == "null";
  case SchemaJson::value_t::number_float:
    return type == "number";
  default:
    return type == "number" || type == "integer";
  }
}

const SchemaJson *valuesOf(const SchemaPart &part, std::string_view keyword, SchemaJson &storage) {
  const SchemaJson *found = part.find(keyword);
  if (!found || keyword == "enum")
    return found;
  storage = SchemaJson::array({*found});
  return &storage;
}

/// A text without the order of members and the spelling of numbers; large numbers that are nearly
/// equal may have the same.
static std::string textOf(const SchemaJson &value) {
  if (value.is_number())
    return SchemaJson(value.get<double>()).dump();
  if (!value.is_structured())
    return value.dump();
  std::set<std::string> members;
  std::string items;
  for (const auto &member : value.items())
    if (value.is_object())
      members.insert(SchemaJson(member.key()).dump() + ":" + textOf(member.value()) + ",");
    else
      items += textOf(member.value()) + ",";
  for (const std::string &member : members)
    items += member;
  return value.is_object() ? "{" + items + "}" : "[" + items + "]";
}

Result<SchemaOutline> outlineOf(SchemaPartFinder &finder, const SchemaParts &parts) {
  SchemaOutline outline;
  bool hasProperties = false;
  for (const SchemaPart &part : parts) {
    MOERT_RETURN_IF_ERROR(finder.count(part.schema->size(), part.path));
    MOERT_ASSIGN_OR_RETURN(const auto types, typesOf(part));
    if (types && !outline.types)
      outline.types = types;
    for (const char *keyword : {"const", "enum"}) {
      SchemaJson storage;
      const SchemaJson *values = valuesOf(part, keyword, storage);
      if (!values || outline.values)
        continue;
      outline.values.emplace();
      for (const SchemaJson &value : *values) {
        std::string text = textOf(value);
        MOERT_RETURN_IF_ERROR(finder.count(1 + text.size() / 16, part.path));
        outline.values->emplace(std::move(text), value);
      }
    }
    if (const SchemaJson *required = part.find("required"); required && required->is_array())
      for (const SchemaJson &name : *required)
        if (name.is_string())
          outline.required.insert(name.get<std::string>());
    if (const SchemaJson *found = part.find("properties"); found && found->is_object()) {
      MOERT_RETURN_IF_ERROR(finder.count(4 * found->size(), part.path));
      hasProperties = true;
      for (const auto &member : found->items())
        outline.properties[member.key()].push_back(
            {&member.value(), strCat(part.path, "/properties/", excerpt(member.key()))});
    }
    const SchemaJson *further = part.find("additionalProperties");
    outline.isOpen =
        outline.isOpen || (further && *further != false) || part.find("patternProperties");
  }
  outline.isOpen = outline.isOpen || !hasProperties;
  return outline;
}

namespace {

/// Whether a value may be of both types.
bool overlap(const std::string &a, const std::string &b) {
  return a == b || (a == "number" && b == "integer") || (a == "integer" && b == "number");
}

bool haveOtherTypes(const SchemaOutline &made, const SchemaOutline &other) {
  auto mayBe = [&](const std::string &type) {
    if (other.values)
      return std::any_of(other.values->begin(), other.values->end(),
                         [&](const auto &value) { return isOfType(value.second, type); });
    return std::any_of(other.types->begin(), other.types->end(),
                       [&](const std::string &one) { return overlap(one, type); });
  };
  return made.types && (other.values || other.types) &&
         std::none_of(made.types->begin(), made.types->end(), mayBe);
}

bool haveOtherValues(const SchemaOutline &made, const SchemaOutline &other) {
  return made.values && other.values &&
         std::none_of(made.values->begin(), made.values->end(),
                      [&](const auto &value) { return other.values->contains(value.first); });
}

} // namespace

Result<bool> excludes(SchemaPartFinder &finder, const SchemaOutline &first,
                      const SchemaOutline &second, uint32_t depth) {
  constexpr uint32_t kMostDepth = 3;
  for (const SchemaOutline *outline : {&first, &second})
    if (outline->values)
      MOERT_RETURN_IF_ERROR(finder.count(outline->values->size(), "#"));
  if (haveOtherTypes(first, second) || haveOtherTypes(second, first) ||
      haveOtherValues(first, second))
    return true;
  const bool areObjects = first.types && *first.types == std::set<std::string>{"object"};
  for (const std::string &name : second.required) {
    const auto mine = first.properties.find(name), theirs = second.properties.find(name);
    if (areObjects && !first.isOpen && mine == first.properties.end() &&
        !first.required.contains(name))
      return true;
    if (!areObjects || !first.required.contains(name) || mine == first.properties.end() ||
        theirs == second.properties.end() || depth == kMostDepth)
      continue;
    SchemaParts mineParts, theirParts;
    for (const SchemaPlace &place : mine->second)
      MOERT_RETURN_IF_ERROR(finder.add(place, mineParts).status());
    for (const SchemaPlace &place : theirs->second)
      MOERT_RETURN_IF_ERROR(finder.add(place, theirParts).status());
    MOERT_ASSIGN_OR_RETURN(const SchemaOutline one, outlineOf(finder, mineParts));
    MOERT_ASSIGN_OR_RETURN(const SchemaOutline other, outlineOf(finder, theirParts));
    MOERT_ASSIGN_OR_RETURN(const bool excluded, excludes(finder, one, other, depth + 1));
    if (excluded)
      return true;
  }
  return false;
}

} // namespace moert
