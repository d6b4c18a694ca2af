// Rules for the JSON strings of a set, and the sets of patterns and formats.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/JsonRules.h"
#include "runtime/text/grammar/StringSet.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// Strings in which a regular expression of ECMA-262 matches. Refuses in words what a finite
/// automaton does not follow (back references, word boundaries, lookbehind), Unicode properties,
/// and counts above 1,024.
Result<StringSets::Set> setOfPattern(StringSets &sets, std::string_view pattern);

/// The pattern of a format, which is narrower than the format where that is not regular; empty: any
/// string fits. Absent if the format is unknown.
std::optional<std::string> patternOfFormat(std::string_view format);

/// The rules must outlive it.
class StringRules {
public:
  explicit StringRules(const JsonRules &jsonRules) : rules(jsonRules) {}

  /// The rule of the set's strings in quotes. Characters are spelled one way, unless all may come.
  /// Absent if the automaton has too many states.
  std::optional<uint32_t> ruleOf(StringSets::Set set);
  /// Before sets of another place: forgets sets where there are many.
  void makeRoom();

  StringSets sets;

private:
  using Steps = std::map<StringSets::Set, std::vector<StringSets::Step>>;

  /// The states from `set` on that have no rules; absent if there are too many.
  std::optional<Steps> newStates(StringSets::Set set);
  void addRules(const Steps &states);
  Grammar::Sequence characterOf(const CodePointSet &set);

  const JsonRules &rules;
  std::map<StringSets::Set, uint32_t> contents; // Rules without the quotes.
  std::map<CodePointSet, Grammar::Sequence> characters;
};

} // namespace moert
