#include "runtime/text/grammar/SchemaCompiler.h"

#include "runtime/base/Excerpt.h"

#include <algorithm>
#include <bit>

namespace moert {

using Json = SchemaJson;

constexpr uint32_t kMostPlaces = 50'000; // Compiled, some of them several times.
constexpr uint32_t kMostNesting = 64;
constexpr uint64_t kMostItems = 1024;    // Largest bound of a length or a number of items.
constexpr size_t kMostDistinct = 8;      // Values of items that are all different.
constexpr size_t kMostAlternatives = 64; // In a oneOf that is checked.

Result<uint32_t> SchemaCompiler::compile() {
  MOERT_ASSIGN_OR_RETURN(uint32_t top, ruleOf({}, {{&root, "#"}}, "#"));
  while (!pending.empty()) {
    const Reference next = std::move(pending.front());
    pending.pop_front();
    const uint32_t first = grammar.ruleCount();
    MOERT_ASSIGN_OR_RETURN(uint32_t found, constrained(next.parts, next.path));
    grammar.addAlternative(next.rule, JsonRules::one(found));
    notePlace(first, next.path);
  }
  shared.tops.emplace_back(top, emptyReason.empty() ? "#: no value fits the schema" : emptyReason);
  return top;
}

Result<uint32_t> SchemaCompiler::ruleOf(SchemaParts parts, const Places &at,
                                        const std::string &path) {
  if (depth == kMostNesting)
    return invalidInput(path, ": nested more than ", kMostNesting, " levels deep");
  ++depth;
  const uint32_t first = grammar.ruleCount();
  Result<uint32_t> rule = ruleWithin(std::move(parts), at, path);
  --depth;
  notePlace(first, path);
  return rule;
}

// The innermost part of the schema comes first.
void SchemaCompiler::notePlace(uint32_t firstRule, const std::string &path) {
  RulePlace *const wanted = shared.wanted;
  if (wanted && wanted->path.empty() && wanted->rule >= firstRule &&
      wanted->rule < grammar.ruleCount())
    wanted->path = path;
}

Result<uint32_t> SchemaCompiler::ruleWithin(SchemaParts parts, const Places &at,
                                            const std::string &path) {
  if (grammar.size() > Grammar::kMostElements || ++placeCount > kMostPlaces)
    return invalidInput(path, ": the schema is too large");
  if (shared.strings.sets.tookTooLong())
    return invalidInput(path, ": the schema takes too long to translate");
  bool isReference = false;
  for (const SchemaPlace &place : at) {
    MOERT_ASSIGN_OR_RETURN(const bool refers, finder.add(place, parts));
    isReference = isReference || refers;
  }
  if (parts.empty())
    return rules.value;
  for (const SchemaPart &part : parts) {
    if (part.schema->is_boolean())
      return never(part.path + " is false");
    // Each keyword is looked for once.
    constexpr uint64_t kKeywords = 8;
    MOERT_RETURN_IF_ERROR(finder.count(kKeywords * part.schema->size(), path));
  }
  if (!isReference)
    return constrained(parts, path);
  ReferenceKey key;
  for (const SchemaPart &part : parts)
    key.emplace_back(part.schema, part.choseAny + 2 * part.choseOne);
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto [known, isNew] = references.try_emplace(std::move(key), grammar.ruleCount());
  if (isNew) {
    grammar.addRule();
    const std::string name = parts.front().path;
    pending.push_back({std::move(parts), name, known->second});
  }
  return known->second;
}

Result<uint32_t> SchemaCompiler::constrained(const SchemaParts &parts, const std::string &path) {
  for (size_t i = 0; i < parts.size(); ++i)
    for (const char *keyword : {"anyOf", "oneOf"}) {
      const bool isChosen = keyword[0] == 'a' ? parts[i].choseAny : parts[i].choseOne;
      if (!isChosen && parts[i].find(keyword))
        return chosen(parts, i, keyword);
    }
  shared.strings.makeRoom();
  MOERT_ASSIGN_OR_RETURN(const auto texts, valuesOf(parts));
  if (!texts)
    return typed(parts, path);
  if (texts->empty())
    return never(path + ": no value of 'enum' or 'const' fits the other keywords");
  return rules.oneOf(*texts, 0);
}

// The other parts have to hold beside each alternative.
Result<uint32_t> SchemaCompiler::chosen(SchemaParts parts, size_t index, const char *keyword) {
  const SchemaPart part = parts[index];
  const Json &alternatives = *part.find(keyword);
  const std::string path = part.pathOf(keyword);
  const bool isOne = keyword[0] == 'o';
  if (!alternatives.is_array() || alternatives.empty())
    return invalidInput(path, ": expected an array that is not empty");
  (isOne ? parts[index].choseOne : parts[index].choseAny) = true;
  if (!parts[index].restricts())
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(index));
  // A program finds the alternative by this property.
  const Json *discriminator = part.find("discriminator");
  if (discriminator && discriminator->is_object() && discriminator->contains("propertyName")) {
    added.push_back({{"required", Json::array({(*discriminator)["propertyName"]})}});
    parts.push_back({{&added.back(), part.pathOf("discriminator")}});
  }
  const uint32_t rule = grammar.addRule();
  std::set<std::string> seen;
  Places different;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    std::string text = alternatives[i].dump();
    MOERT_RETURN_IF_ERROR(finder.count(text.size() / 16, path));
    if (!seen.insert(std::move(text)).second && !isOne)
      continue; // Another way to read the same texts.
    different.push_back({&alternatives[i], strCat(path, "/", i)});
    MOERT_ASSIGN_OR_RETURN(uint32_t one, ruleOf(parts, {different.back()}, different.back().path));
    grammar.addAlternative(rule, JsonRules::one(one));
  }
  if (isOne) {
    MOERT_ASSIGN_OR_RETURN(const bool areExclusive, areAllExclusive(parts, different));
    if (!areExclusive)
      leaveOut(part, keyword, "a value may fit several");
  }
  return rule;
}

Result<bool> SchemaCompiler::areAllExclusive(const SchemaParts &parts, const Places &at) {
  if (at.size() > kMostAlternatives)
    return false;
  std::vector<SchemaOutline> alternatives;
  for (const SchemaPlace &place : at) {
    SchemaParts all = parts;
    MOERT_RETURN_IF_ERROR(finder.add(place, all).status());
    MOERT_ASSIGN_OR_RETURN(SchemaOutline outline, outlineOf(finder, all));
    alternatives.push_back(std::move(outline));
  }
  for (const SchemaOutline &made : alternatives)
    for (const SchemaOutline &other : alternatives) {
      if (&made == &other)
        continue;
      MOERT_ASSIGN_OR_RETURN(const bool excluded, excludes(finder, made, other));
      if (!excluded)
        return false;
    }
  return true;
}

Result<SchemaCompiler::Texts> SchemaCompiler::valuesOf(const SchemaParts &parts) {
  Texts texts;
  std::vector<const Json *> lists;
  std::deque<Json> storage;
  for (const SchemaPart &part : parts) {
    for (const char *keyword : {"enum", "const"})
      if (const Json *values = moert::valuesOf(part, keyword, storage.emplace_back())) {
        if (!values->is_array() || values->empty())
          return invalidInput(part.pathOf(keyword), ": expected an array that is not empty");
        lists.push_back(values);
      }
  }
  if (lists.empty())
    return texts;
  MOERT_ASSIGN_OR_RETURN(const NumberRange range, rangeOf(parts));
  MOERT_ASSIGN_OR_RETURN(const StringSets::Set strings, stringsOf(parts, true));
  StringSets &sets = shared.strings.sets;
  std::vector<std::set<std::string>> types;
  for (const SchemaPart &part : parts) {
    MOERT_ASSIGN_OR_RETURN(const auto some, typesOf(part));
    if (some)
      types.push_back(*some);
  }
  auto fits = [&](const Json &value) {
    for (const std::set<std::string> &some : types)
      if (std::none_of(some.begin(), some.end(),
                       [&](const std::string &type) { return isOfType(value, type); }))
        return false;
    for (size_t i = 1; i < lists.size(); ++i)
      if (std::find(lists[i]->begin(), lists[i]->end(), value) == lists[i]->end())
        return false;
    const std::optional<Decimal> decimal =
        value.is_number() ? Decimal::of(value.dump()) : std::nullopt;
    if (value.is_string())
      return sets.has(strings, value.get_ref<const std::string &>()) || sets.isFull();
    return !decimal || range.has(*decimal);
  };
  texts.emplace();
  size_t bytes = 0;
  for (const Json &value : *lists[0]) {
    for (size_t i = 1; i < lists.size(); ++i)
      MOERT_RETURN_IF_ERROR(finder.count(lists[i]->size(), parts[0].path));
    if (!fits(value))
      continue;
    for (const SchemaPart &part : parts)
      for (const char *type : {"object", "array"})
        for (const std::string &keyword : typeKeywords().find(type)->second)
          if (isOfType(value, type) && part.find(keyword))
            leaveOut(part, keyword.c_str(), "beside enum or const");
    texts->push_back(value.dump());
    bytes += texts->back().size();
  }
  if (sets.isFull()) // From then on all strings were taken.
    for (const char *keyword : {"pattern", "format", "minLength", "maxLength"})
      leaveOut(parts, keyword);
  if (bytes > Grammar::kMostElements)
    return invalidInput(parts.front().path, ": the values have ", bytes,
                        " bytes, expected at most ", Grammar::kMostElements);
  std::sort(texts->begin(), texts->end());
  texts->erase(std::unique(texts->begin(), texts->end()), texts->end());
  return texts;
}

Result<uint32_t> SchemaCompiler::typed(const SchemaParts &parts, const std::string &path) {
  std::optional<std::set<std::string>> types;
  std::set<std::string> implied;
  for (const SchemaPart &part : parts) {
    MOERT_ASSIGN_OR_RETURN(const auto some, typesOf(part));
    for (const auto &[type, keywords] : typeKeywords())
      if (std::any_of(keywords.begin(), keywords.end(),
                      [&](const std::string &keyword) { return part.find(keyword); }))
        implied.insert(type);
    if (!some)
      continue;
    std::set<std::string> both;
    for (const std::string &type : *some)
      for (const std::string &known : types.value_or(*some)) {
        if (type == known || (type == "integer" && known == "number"))
          both.insert(type);
        else if (type == "number" && known == "integer")
          both.insert(known);
      }
    types = both;
  }
  const std::set<std::string> &left = types ? *types : implied; // Other values may fit as well.
  if (left.empty())
    return types ? never(path + ": no type is left") : rules.value;
  const uint32_t rule = grammar.addRule();
  for (const std::string &type : left) {
    MOERT_ASSIGN_OR_RETURN(uint32_t one, ofType(type, parts, path));
    grammar.addAlternative(rule, JsonRules::one(one));
  }
  return rule;
}

Result<uint32_t> SchemaCompiler::ofType(const std::string &type, const SchemaParts &parts,
                                        const std::string &path) {
  if (type == "object")
    return object(parts, path);
  if (type == "array")
    return array(parts, path);
  if (type == "string")
    return string(parts);
  if (type == "number" || type == "integer")
    return number(type == "integer", parts, path);
  return type == "boolean" ? rules.boolean : rules.null;
}

Result<NumberRange> SchemaCompiler::rangeOf(const SchemaParts &parts) {
  NumberRange range;
  for (const SchemaPart &part : parts)
    for (const char *keyword :
         {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"}) {
      const Json *found = part.find(keyword);
      const std::string_view name = keyword;
      if (!found || found->is_boolean()) // Draft 4: whether the bound is excluded.
        continue;
      const std::optional<Decimal> value =
          found->is_number() ? Decimal::of(found->dump()) : std::nullopt;
      if (!value || (name == "multipleOf" && !(Decimal() < *value)))
        return invalidInput(part.pathOf(keyword), ": ", excerpt(found->dump()), ", expected a ",
                            name == "multipleOf" ? "number above 0" : "number");
      auto isExcluded = [&](const char *flag) {
        const Json *excluded = part.find(flag);
        return name.starts_with("exclusive") || (excluded && *excluded == true);
      };
      if (name.ends_with("inimum"))
        range.addLeast({*value, isExcluded("exclusiveMinimum")});
      else if (name.ends_with("aximum"))
        range.addMost({*value, isExcluded("exclusiveMaximum")});
      else if (!range.addMultiple(*value))
        leaveOut(part, keyword, "too many digits");
    }
  return range;
}

Result<uint32_t> SchemaCompiler::number(bool isInteger, const SchemaParts &parts,
                                        const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(NumberRange range, rangeOf(parts));
  if (!range.least && !range.most && !range.multiple)
    return isInteger ? rules.integer : rules.number;
  const Decimal one = {false, "1", ""};
  if (isInteger && !range.addMultiple(one)) {
    leaveOut(parts, "multipleOf");
    range.multiple = {1, 0};
  }
  if (range.least && range.most && range.most->value < range.least->value)
    return never(path + ": the maximum is below the minimum");
  std::optional<uint32_t> rule = ruleOfNumbers(rules, range);
  if (!rule) {
    leaveOut(parts, "multipleOf");
    range.multiple.reset();
    if (isInteger)
      range.multiple = {1, 0};
    rule = ruleOfNumbers(rules, range);
  }
  if (!rule)
    return invalidInput(path, ": the bounds have too many digits");
  return *rule;
}

Result<SchemaCompiler::Bounds> SchemaCompiler::boundsOf(const SchemaParts &parts, const char *least,
                                                        const char *most) {
  Bounds bounds;
  for (const SchemaPart &part : parts)
    for (const char *keyword : {least, most}) {
      const Json *found = part.find(keyword);
      if (!found)
        continue;
      const double size = found->is_number() ? found->get<double>() : -1;
      if (!(size >= 0) || (size < UINT32_MAX && size != static_cast<uint32_t>(size)))
        return invalidInput(part.pathOf(keyword), ": ", excerpt(found->dump()),
                            ", expected a whole number");
      const uint32_t value = size < UINT32_MAX ? static_cast<uint32_t>(size) : UINT32_MAX;
      if (keyword == least)
        bounds.least = std::max(bounds.least, value);
      else
        bounds.most = std::min(bounds.most.value_or(value), value);
    }
  return bounds;
}

Result<SchemaCompiler::Bounds> SchemaCompiler::smallBoundsOf(const SchemaParts &parts,
                                                             const char *least, const char *most) {
  MOERT_ASSIGN_OR_RETURN(Bounds bounds, boundsOf(parts, least, most));
  if (bounds.least > kMostItems) {
    leaveOut(parts, least);
    bounds.least = 0;
  }
  if (bounds.most.value_or(0) > kMostItems) {
    leaveOut(parts, most);
    bounds.most.reset();
  }
  return bounds;
}

Result<StringSets::Set> SchemaCompiler::spellingsOf(const SchemaPart &part) {
  StringSets &sets = shared.strings.sets;
  std::vector<StringSets::Set> all;
  for (const char *keyword : {"pattern", "format"}) {
    const Json *found = part.find(keyword);
    if (!found)
      continue;
    if (!found->is_string())
      return invalidInput(part.pathOf(keyword), ": ", excerpt(found->dump()),
                          ", expected a string");
    std::optional<std::string> pattern = found->get<std::string>();
    if (keyword[0] == 'f')
      pattern = patternOfFormat(*pattern);
    if (!pattern) {
      leaveOut(part, keyword, "unknown");
      continue;
    }
    Result<StringSets::Set> set = setOfPattern(sets, *pattern);
    if (set.isOk())
      all.push_back(*set);
    else
      leaveOut(part, keyword, set.status().message());
  }
  return sets.intersection(std::move(all));
}

Result<StringSets::Set> SchemaCompiler::stringsOf(const SchemaParts &parts, bool withLengths) {
  StringSets &sets = shared.strings.sets;
  std::vector<StringSets::Set> all;
  for (const SchemaPart &part : parts) {
    MOERT_ASSIGN_OR_RETURN(const StringSets::Set set, spellingsOf(part));
    all.push_back(set);
  }
  const StringSets::Set spellings = sets.intersection(std::move(all));
  MOERT_ASSIGN_OR_RETURN(Bounds bounds, boundsOf(parts, "minLength", "maxLength"));
  const StringSets::Lengths lengths = sets.lengthsOf(spellings);
  uint32_t most = bounds.most.value_or(StringSets::kUnbounded);
  if (!withLengths || (bounds.least <= lengths.least && most >= lengths.most))
    return spellings;
  MOERT_ASSIGN_OR_RETURN(bounds, smallBoundsOf(parts, "minLength", "maxLength"));
  most = bounds.most.value_or(StringSets::kUnbounded);
  return most < bounds.least ? StringSets::kNone
                             : sets.intersection({spellings, sets.ofLength(bounds.least, most)});
}

// Keywords whose automaton is too large are left out, first the lengths.
Result<uint32_t> SchemaCompiler::string(const SchemaParts &parts) {
  for (const bool withLengths : {true, false}) {
    shared.strings.makeRoom();
    MOERT_ASSIGN_OR_RETURN(const StringSets::Set set, stringsOf(parts, withLengths));
    if (const std::optional<uint32_t> rule = shared.strings.ruleOf(set))
      return *rule;
    for (const char *keyword :
         {withLengths ? "minLength" : "pattern", withLengths ? "maxLength" : "format"})
      leaveOut(parts, keyword);
  }
  return rules.string;
}

Result<uint32_t> SchemaCompiler::array(const SchemaParts &parts, const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(Bounds bounds, smallBoundsOf(parts, "minItems", "maxItems"));
  std::vector<Places> first; // Schemas of the first items.
  Places rest;
  bool mayFollow = true; // Items after the first ones.
  for (const SchemaPart &part : parts) {
    const Json *items = part.find("items");
    const char *const prefix = items && items->is_array() ? "items" : "prefixItems";
    const char *const further = prefix[0] == 'i' ? "additionalItems" : "items";
    const Json *list = part.find(prefix);
    if (list && !list->is_array())
      return invalidInput(part.pathOf(prefix), ": expected an array");
    const size_t listed = list ? list->size() : 0;
    if (listed > kMostItems)
      return invalidInput(part.pathOf(prefix), ": ", listed, " items, expected at most ",
                          kMostItems);
    const Json *other = part.find(further);
    if (first.size() < listed)
      first.resize(listed, rest);
    for (size_t i = 0; i < first.size(); ++i) {
      if (i < listed)
        first[i].push_back(part.at(prefix, i));
      else if (other)
        first[i].push_back(part.at(further));
    }
    if (other)
      rest.push_back(part.at(further));
    mayFollow = mayFollow && (!list || other) && !(other && *other == false);
  }
  const auto listed = static_cast<uint32_t>(first.size());
  if (!mayFollow)
    bounds.most = std::min(bounds.most.value_or(UINT32_MAX), std::max(bounds.least, listed));
  if (bounds.most && *bounds.most < bounds.least)
    return never(
        strCat(path, ": 'maxItems' ", *bounds.most, " is below 'minItems' ", bounds.least));
  for (const SchemaPart &part : parts) {
    const Json *unique = part.find("uniqueItems");
    if (!unique || *unique != true || (bounds.most && *bounds.most < 2))
      continue;
    MOERT_ASSIGN_OR_RETURN(const auto values, fewValues(rest));
    if (values && first.empty())
      return distinct(*values, bounds);
    leaveOut(part, "uniqueItems");
  }
  return listOf(first, rest, bounds, path);
}

Result<uint32_t> SchemaCompiler::listOf(const std::vector<Places> &first, const Places &rest,
                                        const Bounds &bounds, const std::string &path) {
  const auto listed = static_cast<uint32_t>(first.size());
  const uint32_t last = bounds.most.value_or(std::max({bounds.least, listed, uint32_t(1)}));
  std::vector<uint32_t> items;
  for (uint32_t i = 0; i < std::min(listed, last); ++i) {
    MOERT_ASSIGN_OR_RETURN(uint32_t item, ruleOf({}, first[i], strCat(path, "/prefixItems/", i)));
    items.push_back(item);
  }
  uint32_t other = rules.value;
  if (last > listed || !bounds.most) {
    MOERT_ASSIGN_OR_RETURN(other, ruleOf({}, rest, path + "/items"));
  }
  auto nextOf = [&](uint32_t i, uint32_t after) {
    return JsonRules::join({i == 0 ? Sequence() : comma(),
                            JsonRules::one(i < items.size() ? items[i] : other),
                            JsonRules::one(after)});
  };
  // after: what may come after i items.
  uint32_t after = rules.newRule({{}});
  if (!bounds.most)
    grammar.addAlternative(after, nextOf(last, after));
  for (uint32_t i = last; i-- > 0;) {
    const Sequence more = nextOf(i, after);
    after = i < bounds.least ? rules.newRule({more}) : rules.newRule({more, {}});
  }
  return wrapped("[", after, "]");
}

Result<SchemaCompiler::Texts> SchemaCompiler::fewValues(const Places &at) {
  SchemaParts parts;
  Texts values;
  for (const SchemaPlace &place : at)
    MOERT_RETURN_IF_ERROR(finder.add(place, parts).status());
  for (const SchemaPart &part : parts)
    if (part.schema->is_boolean() || part.find("anyOf") || part.find("oneOf"))
      return values;
  MOERT_ASSIGN_OR_RETURN(values, valuesOf(parts));
  if (!values && parts.size() == 1 && parts[0].find("type") && *parts[0].find("type") == "boolean")
    values = {"true", "false"};
  if (values && values->size() > kMostDistinct)
    values.reset();
  return values;
}

// A rule for each set of items that are left.
uint32_t SchemaCompiler::distinct(const std::vector<std::string> &items,
                                  const Bounds &bounds) const {
  const uint32_t all = (1u << items.size()) - 1;
  std::vector<uint32_t> after(all + 1), rulesOfItems;
  for (const std::string &item : items)
    rulesOfItems.push_back(rules.newRule({rules.text(item)}));
  for (uint32_t used = all + 1; used-- > 0;) {
    const auto count = static_cast<uint32_t>(std::popcount(used));
    after[used] = grammar.addRule();
    if (count >= bounds.least)
      grammar.addAlternative(after[used], {});
    for (size_t i = 0; i < items.size(); ++i)
      if ((used >> i & 1) == 0 && count < bounds.most.value_or(UINT32_MAX))
        grammar.addAlternative(
            after[used],
            JsonRules::join({count == 0 ? Sequence() : comma(), JsonRules::one(rulesOfItems[i]),
                             JsonRules::one(after[used | 1u << i])}));
  }
  return wrapped("[", after[0], "]");
}

uint32_t SchemaCompiler::never(const std::string &reason) {
  if (emptyReason.empty())
    emptyReason = reason;
  return rules.newRule({});
}

void SchemaCompiler::leaveOut(const SchemaPart &part, const char *keyword,
                              const std::string &reason) {
  if (part.find(keyword))
    shared.unenforced.add(
        strCat(part.path, ": ", keyword, reason.empty() ? "" : " (" + reason + ")"));
}

void SchemaCompiler::leaveOut(const SchemaParts &parts, const char *keyword) {
  for (const SchemaPart &part : parts)
    leaveOut(part, keyword);
}

Grammar::Sequence SchemaCompiler::comma() const {
  return JsonRules::join({rules.text(","), JsonRules::one(rules.space)});
}

uint32_t SchemaCompiler::wrapped(const char *open, uint32_t content, const char *close) const {
  return rules.newRule(
      {JsonRules::join({rules.text(open), JsonRules::one(rules.space), JsonRules::one(content),
                        JsonRules::one(rules.space), rules.text(close)})});
}

} // namespace moert
