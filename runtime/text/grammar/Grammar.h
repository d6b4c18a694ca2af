// Context-free grammars over bytes. For constraining generated text; they parse nothing.
//
// A rule is a list of alternatives, each a sequence of elements: a set of bytes, or another rule.
// GrammarAutomaton.h matches texts by a grammar.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

class ByteSet {
public:
  /// All bytes from first to last.
  void add(unsigned char first, unsigned char last);
  void add(unsigned char byte) { add(byte, byte); }
  bool has(unsigned char byte) const { return (words[byte / 64] >> (byte % 64) & 1) != 0; }
  /// The byte of a set that has no other.
  std::optional<unsigned char> only() const;

  auto operator<=>(const ByteSet &) const = default;

private:
  std::array<uint64_t, 4> words{};
};

/// Built once, then immutable: any number of threads may match by it.
class Grammar {
public:
  struct Element {
    enum class Kind : uint8_t { kEnd, kBytes, kRule };
    Kind kind = Kind::kEnd;
    uint32_t index = 0; // kBytes: of the set; kRule: of the rule.
  };
  using Sequence = std::vector<Element>;

  /// Ways to continue a text at one place. Only a grammar of many alternatives that begin alike has
  /// more.
  static constexpr uint32_t kMostWays = 1024;
  /// Elements of a grammar from a text or schema of a client. Schemas of programs have some
  /// thousands.
  static constexpr size_t kMostElements = 100'000;

  // Building. Rule 0 is the text.
  uint32_t addRule();
  void addAlternative(uint32_t rule, const Sequence &sequence);
  Element bytes(const ByteSet &set);
  static Element ruleOf(uint32_t rule) { return {Element::Kind::kRule, rule}; }
  /// Appends the bytes of a text.
  void appendText(Sequence &sequence, std::string_view text);
  /// Adds the rules of another grammar. Returns the rule that is its text.
  uint32_t append(const Grammar &other);
  /// Elements so far: what a grammar's memory grows with.
  size_t size() const { return elements.size(); }
  uint32_t ruleCount() const { return static_cast<uint32_t>(rules.size()); }
  /// A rule that no automaton follows: it can begin with itself, which no text could end, or in
  /// more ways or by more rules than a state may have.
  struct Fault {
    uint32_t rule = 0;
    std::string reason;
  };
  std::optional<Fault> findFault() const;
  /// Ways to begin each rule's text, at most; UINT32_MAX: so many or more.
  std::vector<uint32_t> waysToBegin() const;
  /// Removes alternatives that have no text. Returns whether each rule has one.
  std::vector<bool> dropUnproductive();
  /// Gives back what building left over.
  void shrink();
  uint64_t memoryBytes() const;

  // Reading. The elements of an alternative follow each other up to one of kind kEnd.
  const Element &element(uint32_t index) const { return elements[index]; }
  const std::vector<ByteSet> &byteSets() const { return sets; }
  /// Calls isFound(first element) for each alternative, until it returns true.
  template <class IsFound> bool anyAlternative(uint32_t rule, const IsFound &isFound) const {
    for (uint32_t i = rules[rule].first; i != kNoAlternative; i = alternatives[i].next)
      if (isFound(alternatives[i].element))
        return true;
    return false;
  }

private:
  static constexpr uint32_t kNoAlternative = UINT32_MAX;
  struct Rule {
    uint32_t first = kNoAlternative, last = kNoAlternative;
  };
  struct Alternative {
    uint32_t element; // The first one.
    uint32_t next;    // The same rule's.
  };

  void append(Rule &rule, uint32_t alternative);
  /// Rules with an alternative all of whose elements are such rules, or bytes if they may be there.
  struct Closure {
    std::vector<bool> rules;
    std::vector<uint32_t> waitsFor; // By alternative: elements that are no such ones.
  };
  Closure closureOf(bool mayHaveBytes) const;
  /// Each rule after all those that its text can begin with; without rules that can begin with
  /// themselves.
  struct Order {
    std::vector<bool> empty;
    std::vector<uint32_t> rules;
    std::vector<uint32_t> calls; // Rules that begin with each other, from each one on.
  };
  Order orderOfBeginnings() const;
  std::vector<uint32_t> waysToBegin(const Order &order) const;

  std::vector<Element> elements; // All alternatives, each followed by kEnd.
  std::vector<Rule> rules;
  std::vector<Alternative> alternatives;
  std::vector<ByteSet> sets;
  std::map<ByteSet, uint32_t> setIndices; // While it is built.
};

} // namespace moert
