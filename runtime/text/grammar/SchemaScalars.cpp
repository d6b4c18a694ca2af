// How SchemaCompiler compiles numbers and strings, and reads bounds.
#include "runtime/base/Excerpt.h"
#include "runtime/text/grammar/SchemaCompiler.h"

#include <algorithm>

namespace moert {

using Json = SchemaJson;

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
  StringSets &sets = strings.sets;
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
  StringSets &sets = strings.sets;
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
    strings.makeRoom();
    MOERT_ASSIGN_OR_RETURN(const StringSets::Set set, stringsOf(parts, withLengths));
    if (const std::optional<uint32_t> rule = strings.ruleOf(set))
      return *rule;
    for (const char *keyword :
         {withLengths ? "minLength" : "pattern", withLengths ? "maxLength" : "format"})
      leaveOut(parts, keyword);
  }
  return rules.string;
}

} // namespace moert
