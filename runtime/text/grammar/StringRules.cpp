#include "runtime/text/grammar/StringRules.h"

#include "runtime/base/Status.h"

#include <algorithm>
#include <string>
#include <vector>

namespace moert {

/// States of one string's automaton: some hundredths of a second.
constexpr size_t kMostStates = 4096;

void StringRules::makeRoom() {
  sets.allowMoreSteps();
  if (!sets.isHalfFull())
    return;
  sets.clear();
  contents.clear();
}

std::optional<StringRules::Steps> StringRules::newStates(StringSets::Set set) {
  Steps states;
  std::vector<StringSets::Set> pending = {set};
  while (!pending.empty()) {
    const StringSets::Set next = pending.back();
    pending.pop_back();
    if (contents.contains(next) || states.contains(next))
      continue;
    if (states.size() == kMostStates || sets.isFull())
      return {};
    for (const StringSets::Step &step : states[next] = sets.steps(next))
      pending.push_back(step.rest);
  }
  if (sets.isFull())
    return {};
  return states;
}

// A state without a way to a string's end has a rule without alternatives, which
// Grammar::dropUnproductive() removes.
void StringRules::addRules(const Steps &states) {
  for (const auto &[set, steps] : states)
    contents[set] = rules.newRule({});
  for (const auto &[set, steps] : states) {
    for (const StringSets::Step &step : steps)
      rules.grammar.addAlternative(
          contents[set],
          JsonRules::join({characterOf(step.characters), JsonRules::one(contents[step.rest])}));
    if (sets.hasEmptyText(set))
      rules.grammar.addAlternative(contents[set], {});
  }
}

std::optional<uint32_t> StringRules::ruleOf(StringSets::Set set) {
  if (sets.isFull())
    return {};
  if (set == StringSets::kAll)
    return rules.string;
  const std::optional<Steps> states = newStates(set);
  if (!states || rules.grammar.size() > Grammar::kMostElements)
    return {};
  addRules(*states);
  return rules.newRule(
      {JsonRules::join({rules.text("\""), JsonRules::one(contents[set]), rules.text("\"")})});
}

// Control characters, quotes and backslashes are escaped.
Grammar::Sequence StringRules::characterOf(const CodePointSet &set) {
  if (set == CodePointSet::all())
    return JsonRules::one(rules.character);
  const auto [place, isNew] = characters.try_emplace(set);
  if (!isNew)
    return place->second;
  CodePointSet escaped(0, 0x1F);
  for (uint32_t codePoint : {0x22, 0x5C, 0x7F})
    escaped.add(codePoint, codePoint);
  std::vector<Grammar::Sequence> sequences = utf8Sequences(rules.grammar, set.without(escaped));
  std::vector<std::string> escapes;
  for (const auto &[first, last] : escaped.ranges())
    for (uint32_t codePoint = first; codePoint <= last; ++codePoint) {
      constexpr std::string_view kShort = "\b\t\n\f\r\"\\", kLetters = "btnfr\"\\";
      const size_t letter = kShort.find(static_cast<char>(codePoint));
      if (!set.has(codePoint))
        continue;
      if (letter != std::string_view::npos)
        escapes.push_back({'\\', kLetters[letter]});
      else
        escapes.push_back(strCat("\\u00", codePoint / 16, "0123456789abcdef"[codePoint % 16]));
    }
  std::sort(escapes.begin(), escapes.end());
  if (!escapes.empty())
    sequences.push_back(JsonRules::one(rules.oneOf(escapes, 0)));
  place->second = sequences.size() == 1 ? sequences[0] : JsonRules::one(rules.newRule(sequences));
  return place->second;
}

} // namespace moert
