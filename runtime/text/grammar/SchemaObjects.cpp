// How SchemaCompiler compiles objects: properties that schemas list, and names of patterns.
#include "runtime/base/Excerpt.h"
#include "runtime/text/grammar/SchemaCompiler.h"

#include <algorithm>

namespace moert {

using Json = SchemaJson;

constexpr size_t kMostProperties = 1024; // In one object.
/// Rules that count the properties of one object.
constexpr size_t kMostCounts = 16'384;

/// What the parts state about an object.
struct SchemaCompiler::ObjectSchema {
  struct Part {
    std::map<std::string, SchemaPlace> listed;
    std::vector<std::pair<StringSets::Set, SchemaPlace>> patterns;
    std::optional<SchemaPlace> further; // additionalProperties

    /// Adds the schemas of a property; returns whether it is allowed.
    bool addValues(StringSets &sets, const std::string &name, Places &values) const {
      const size_t before = values.size();
      if (const auto found = listed.find(name); found != listed.end())
        values.push_back(found->second);
      for (const auto &[matching, place] : patterns)
        if (sets.has(matching, name))
          values.push_back(place);
      if (values.size() == before && further)
        values.push_back(*further);
      return values.empty() || *values.back().schema != false;
    }
  };

  std::vector<Part> parts;
  std::vector<std::string> names; // Listed or required, in their order.
  std::set<std::string> required;
  StringSets::Set allowedNames = StringSets::kAll;
};

Result<uint32_t> SchemaCompiler::object(const SchemaParts &parts, const std::string &path) {
  strings.makeRoom();
  MOERT_ASSIGN_OR_RETURN(const ObjectSchema schema, readObject(parts));
  MOERT_ASSIGN_OR_RETURN(Bounds bounds, smallBoundsOf(parts, "minProperties", "maxProperties"));
  // All sets are used before rules of values are made, which forget them.
  std::vector<Places> values;
  std::vector<std::string> names;
  for (const std::string &name : schema.names) {
    Places places;
    bool isAllowed = strings.sets.has(schema.allowedNames, name);
    for (const ObjectSchema::Part &part : schema.parts)
      isAllowed = part.addValues(strings.sets, name, places) && isAllowed;
    if (!isAllowed && schema.required.contains(name))
      return never(strCat(path, "/required: '", excerpt(name),
                          "' is not among the properties, and no others are allowed"));
    if (!isAllowed)
      continue;
    names.push_back(name);
    values.push_back(std::move(places));
  }
  if (strings.sets.isFull())
    return invalidInput(path, ": 'patternProperties' and 'propertyNames' are too large");
  const std::vector<FurtherProperties> further = furtherOf(schema);
  const size_t counted = std::max({1u, bounds.least, bounds.most.value_or(0)}) + size_t(1);
  const bool mayRepeat = !further.empty() && bounds.least > schema.required.size() + 1;
  if (mayRepeat || (names.size() + 1) * counted > kMostCounts) {
    leaveOut(parts, "minProperties");
    bounds.least = 0;
  }
  if ((names.size() + 1) * counted > kMostCounts) {
    leaveOut(parts, "maxProperties");
    bounds.most.reset();
  }
  auto pairOf = [this](const Sequence &name, uint32_t value) {
    return rules.newRule({JsonRules::join(
        {name, rules.text(":"), JsonRules::one(rules.space), JsonRules::one(value)})});
  };
  std::vector<Property> properties;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string place = values[i].empty() ? path : values[i].front().path;
    MOERT_ASSIGN_OR_RETURN(uint32_t value, ruleOf({}, values[i], place));
    properties.push_back(
        {pairOf(rules.text(Json(names[i]).dump()), value), schema.required.contains(names[i])});
  }
  std::vector<uint32_t> others;
  for (const FurtherProperties &some : further) {
    const std::string place = some.values.empty() ? path : some.values.front().path;
    MOERT_ASSIGN_OR_RETURN(uint32_t value, ruleOf({}, some.values, place));
    others.push_back(pairOf(JsonRules::one(some.names), value));
  }
  return wrapped("{", membersOf(properties, others, bounds), "}");
}

Result<SchemaCompiler::ObjectSchema> SchemaCompiler::readObject(const SchemaParts &parts) {
  ObjectSchema object;
  std::set<std::string> known;
  std::vector<std::string> requiredNames;
  for (const SchemaPart &part : parts) {
    ObjectSchema::Part read;
    for (const char *keyword : {"properties", "patternProperties"}) {
      const Json *found = part.find(keyword);
      if (found && !found->is_object())
        return invalidInput(part.pathOf(keyword), ": expected an object");
      if (!found)
        continue;
      const SchemaPlace all = part.at(keyword);
      for (const auto &member : found->items()) {
        const SchemaPlace place = {&member.value(), all.pathOf(member.key())};
        if (keyword[1] == 'r') {
          read.listed.emplace(member.key(), place);
          if (known.insert(member.key()).second)
            object.names.push_back(member.key());
          continue;
        }
        const Result<StringSets::Set> names = setOfPattern(strings.sets, member.key());
        if (names.isOk())
          read.patterns.emplace_back(*names, place);
        else
          leaveOut(part, keyword, names.status().message());
      }
    }
    if (part.find("additionalProperties"))
      read.further = part.at("additionalProperties");
    MOERT_ASSIGN_OR_RETURN(const StringSets::Set names, namesOf(part));
    object.allowedNames = strings.sets.intersection({object.allowedNames, names});
    if (const Json *required = part.find("required"); required && !required->is_boolean()) {
      if (!required->is_array() || !std::all_of(required->begin(), required->end(),
                                                [](const Json &one) { return one.is_string(); }))
        return invalidInput(part.pathOf("required"), ": expected an array of strings");
      for (const Json &name : *required)
        requiredNames.push_back(name.get<std::string>());
    }
    object.parts.push_back(std::move(read));
  }
  for (const std::string &name : requiredNames) {
    object.required.insert(name);
    if (known.insert(name).second)
      object.names.push_back(name);
  }
  if (object.names.size() > kMostProperties)
    return invalidInput(parts.front().path, ": ", object.names.size(),
                        " properties, expected at most ", kMostProperties);
  return object;
}

/// The strings of "propertyNames".
Result<StringSets::Set> SchemaCompiler::namesOf(const SchemaPart &part) {
  if (!part.find("propertyNames"))
    return StringSets::kAll;
  SchemaParts parts;
  MOERT_RETURN_IF_ERROR(finder.add(part.at("propertyNames"), parts).status());
  StringSets &sets = strings.sets;
  for (const SchemaPart &name : parts) {
    if (name.schema->is_boolean())
      return StringSets::kNone;
    if (name.find("anyOf") || name.find("oneOf"))
      leaveOut(part, "propertyNames");
  }
  MOERT_ASSIGN_OR_RETURN(const StringSets::Set names, stringsOf(parts, true));
  MOERT_ASSIGN_OR_RETURN(const Texts values, valuesOf(parts));
  if (!values)
    return names;
  std::vector<StringSets::Set> texts;
  for (const std::string &text : *values)
    if (const Json value = Json::parse(text); value.is_string())
      texts.push_back(sets.text(value.get_ref<const std::string &>()));
  return sets.unionOf(std::move(texts));
}

// Names that fit several patterns, or the sets of which are too large, are not generated.
std::vector<SchemaCompiler::FurtherProperties>
SchemaCompiler::furtherOf(const ObjectSchema &object) {
  StringSets &sets = strings.sets;
  std::vector<FurtherProperties> all;
  std::vector<StringSets::Set> others = {object.allowedNames}, patterns;
  bool isOpen = false, isClosed = false;
  for (const ObjectSchema::Part &part : object.parts) {
    for (const auto &[names, place] : part.patterns)
      patterns.push_back(names);
    const bool isFalse = part.further && *part.further->schema == false;
    isOpen = isOpen || (part.further && !isFalse);
    isClosed = isClosed || isFalse;
  }
  // An object without any of these keywords has any properties.
  isOpen = !isClosed && (isOpen || (patterns.empty() && object.names.empty()));
  if (patterns.empty() && !isOpen)
    return all;
  std::vector<StringSets::Set> listed;
  for (const std::string &name : object.names)
    listed.push_back(sets.text(name));
  others.push_back(sets.complement(sets.unionOf(std::move(listed))));
  auto addNames = [&](std::vector<StringSets::Set> names, const SchemaPlace *value,
                      const ObjectSchema::Part *owner) {
    FurtherProperties some = {0, {}};
    for (const ObjectSchema::Part &part : object.parts)
      if (&part != owner && part.further)
        some.values.push_back(*part.further);
    if (value)
      some.values.push_back(*value);
    names.insert(names.end(), others.begin(), others.end());
    const std::optional<uint32_t> rule = strings.ruleOf(sets.intersection(std::move(names)));
    if (!rule)
      return;
    some.names = *rule;
    all.push_back(std::move(some));
  };
  size_t next = 0;
  for (const ObjectSchema::Part &part : object.parts)
    for (const auto &[names, place] : part.patterns) {
      std::vector<StringSets::Set> only = {names};
      for (size_t i = 0; i < patterns.size(); ++i)
        if (i != next)
          only.push_back(sets.complement(patterns[i]));
      ++next;
      addNames(std::move(only), &place, &part);
    }
  if (isOpen)
    addNames({sets.complement(sets.unionOf(patterns))}, nullptr, nullptr);
  return all;
}

// The properties are counted as far as bounds need it, and whether one came before. From the last
// one: rest[count] after so many.
uint32_t SchemaCompiler::membersOf(const std::vector<Property> &properties,
                                   const std::vector<uint32_t> &further,
                                   const Bounds &bounds) const {
  const uint32_t counted = std::max({1u, bounds.least, bounds.most.value_or(0)});
  auto follow = [&](uint32_t rule, uint32_t count, uint32_t pair,
                    const std::vector<uint32_t> &rest) {
    if (count < bounds.most.value_or(UINT32_MAX))
      grammar.addAlternative(
          rule, JsonRules::join({count == 0 ? Sequence() : comma(), JsonRules::one(pair),
                                 JsonRules::one(rest[std::min(count + 1, counted)])}));
  };
  std::vector<uint32_t> rest;
  for (uint32_t count = 0; count <= counted; ++count)
    rest.push_back(count < bounds.least ? rules.newRule({}) : rules.newRule({{}}));
  for (uint32_t count = 0; count <= counted; ++count)
    for (const uint32_t pair : further)
      follow(rest[count], count, pair, rest);
  for (size_t i = properties.size(); i-- > 0;) {
    std::vector<uint32_t> before;
    for (uint32_t count = 0; count <= std::min<size_t>(i, counted); ++count) {
      before.push_back(rules.newRule({}));
      follow(before.back(), count, properties[i].pair, rest);
      if (!properties[i].isRequired)
        grammar.addAlternative(before.back(), JsonRules::one(rest[count]));
    }
    rest = std::move(before);
  }
  return rest[0];
}

} // namespace moert
