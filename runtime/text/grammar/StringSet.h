// Sets of strings that a finite automaton recognizes, with intersection and complement.
//
// A set is an expression. What may follow a character is again an expression (Brzozowski's
// derivative), so that bounds of lengths, patterns, lookaheads and excluded names are all followed
// at a time. Equal expressions have one number, and the expressions that can be reached are the
// states of the automaton.
#pragma once

#include "runtime/text/grammar/CodePointSet.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

namespace moert {

/// Used by one thread.
class StringSets {
public:
  using Set = uint32_t; // The number of an expression.
  static constexpr Set kNone = 0, kEmptyText = 1, kAll = 2;
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  /// Beyond these isFull(): two MiB, and a second.
  static constexpr size_t kMostSets = 8192, kMostContents = 131'072, kMostSteps = 2'000'000;
  /// Steps after those that allowMoreSteps() gives, and those of all sets that were ever made.
  static constexpr size_t kMoreSteps = 250'000, kMostStepsOfAll = 8'000'000;

  StringSets();

  Set character(const CodePointSet &allowed);
  Set text(std::string_view utf8);
  Set concatenation(Set first, Set rest);
  Set unionOf(std::vector<Set> sets);
  Set intersection(std::vector<Set> sets);
  Set complement(Set excluded);
  Set repetition(Set repeated, uint32_t least, uint32_t most = kUnbounded);
  /// Strings of so many characters.
  Set ofLength(uint32_t least, uint32_t most);

  bool hasEmptyText(Set set) const { return nodes[set].hasEmptyText; }
  bool has(Set set, std::string_view utf8);
  /// Whether sets are missing since there are too many: answers are no longer right.
  bool isFull() const {
    return nodes.size() > kMostSets || contentCount > kMostContents || stepCount > stepLimit;
  }
  bool isHalfFull() const {
    return nodes.size() > kMostSets / 2 || contentCount > kMostContents / 2;
  }
  size_t size() const { return nodes.size(); }
  void clear();
  /// Before other sets: they are not full by the steps for those before.
  void allowMoreSteps() { stepLimit = std::max(stepLimit, stepCount + kMoreSteps); }
  /// Whether there are steps left for sets that may need many.
  bool hasStepsForPatterns() const { return stepCount <= kMostSteps; }
  bool tookTooLong() const { return stepCount > kMostStepsOfAll; }

  /// What follows each first character.
  struct Step {
    CodePointSet characters;
    Set rest;
  };
  std::vector<Step> steps(Set set);
  struct Lengths {
    uint32_t least, most;
  };
  /// Bounds of the strings' lengths in characters; `most` is kUnbounded where none is known.
  Lengths lengthsOf(Set set) const { return nodes[set].lengths; }

private:
  enum class Kind : uint8_t { kNone, kEmptyText, kCharacter, kThen, kAny, kEach, kNot, kRepeat };
  using Key = std::tuple<Kind, std::vector<uint32_t>, CodePointSet>;
  struct Node {
    Kind kind;
    bool hasEmptyText;
    Lengths lengths;
    const Key *key;

    /// The parts; kRepeat: the part, the least and the most times.
    const std::vector<uint32_t> &parts() const { return std::get<1>(*key); }
    const CodePointSet &characters() const { return std::get<2>(*key); }
  };

  Set numberOf(Kind kind, std::vector<uint32_t> parts, bool hasEmptyText,
               const CodePointSet &characters = {});
  /// Bounds of an expression from those of its parts.
  Lengths lengthsOf(Kind kind, const std::vector<uint32_t> &parts) const;
  Set after(Set set, uint32_t codePoint);
  /// Code points from which on `after` may differ. visited: sets that are done.
  void addBoundaries(Set set, std::set<uint32_t> &boundaries, std::set<Set> &visited) const;

  std::vector<Node> nodes;
  std::map<Key, Set> numbers;
  size_t contentCount = 0; // Parts and ranges in all expressions.
  size_t stepCount = 0, stepLimit = kMostSteps;
};

} // namespace moert
