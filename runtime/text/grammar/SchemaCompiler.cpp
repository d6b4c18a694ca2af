#include "runtime/text/grammar/SchemaCompiler.h"

#include "runtime/base/Excerpt.h"

#include <algorithm>

namespace moert {

using Json = SchemaJson;

constexpr uint32_t kMostPlaces = 50'000; // Compiled, some of them several times.
constexpr uint32_t kMostNesting = 64;
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
  if (wanted && wanted->path.empty() && wanted->rule >= firstRule &&
      wanted->rule < grammar.ruleCount())
    wanted->path = path;
}

Result<uint32_t> SchemaCompiler::ruleWithin(SchemaParts parts, const Places &at,
                                            const std::string &path) {
  if (grammar.size() > Grammar::kMostElements || ++placeCount > kMostPlaces)
    return invalidInput(path, ": the schema is too large");
  if (strings.sets.tookTooLong())
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
  strings.makeRoom();
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
  MOERT_ASSIGN_OR_RETURN(const StringSets::Set allowed, stringsOf(parts, true));
  StringSets &sets = strings.sets;
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
      return sets.has(allowed, value.get_ref<const std::string &>()) || sets.isFull();
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

uint32_t SchemaCompiler::never(const std::string &reason) {
  if (firstEmpty.empty())
    firstEmpty = reason;
  return rules.newRule({});
}

void SchemaCompiler::leaveOut(const SchemaPart &part, const char *keyword,
                              const std::string &reason) {
  if (part.find(keyword))
    unenforced.add(strCat(part.path, ": ", keyword, reason.empty() ? "" : " (" + reason + ")"));
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
