// How SchemaCompiler compiles arrays.
#include "runtime/text/grammar/SchemaCompiler.h"

#include <algorithm>
#include <bit>

namespace moert {

using Json = SchemaJson;

constexpr size_t kMostDistinct = 8; // Values of items that are all different.

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

} // namespace moert
