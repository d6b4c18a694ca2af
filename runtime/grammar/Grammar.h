// Context-free grammars over bytes, and the state of matching a text byte by byte: which bytes may
// come next, and whether the text may end. For constraining generated text; it parses nothing.
//
// A rule is a list of alternatives, each a sequence of elements: a set of bytes, or another rule. A
// state is the set of all ways to continue: stacks of the elements that are still to be matched.
#pragma once

#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace moert {

class ByteSet {
public:
  /// All bytes from first to last.
  void add(unsigned char first, unsigned char last);
  void add(unsigned char byte) { add(byte, byte); }
  bool has(unsigned char byte) const { return (words[byte / 64] >> (byte % 64) & 1) != 0; }

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

  // Building. Rule 0 is the text.
  uint32_t addRule();
  void addAlternative(uint32_t rule, const Sequence &sequence);
  Element bytes(const ByteSet &set);
  static Element ruleOf(uint32_t rule) { return {Element::Kind::kRule, rule}; }
  /// Appends the bytes of a text.
  void appendText(Sequence &sequence, std::string_view text);
  /// Elements so far: what a grammar's memory grows with.
  size_t size() const { return elements.size(); }
  /// Refuses a rule that can begin with itself, which no text could end, and more rules that begin
  /// with each other than a state follows.
  Status check() const;

private:
  friend class GrammarState;

  bool canBeEmpty(uint32_t rule, const std::vector<bool> &empty) const;
  /// The rules that a text of each rule can begin with.
  std::vector<std::vector<uint32_t>> beginnings() const;

  std::vector<Element> elements;            // All alternatives, each followed by kEnd.
  std::vector<std::vector<uint32_t>> rules; // The alternatives' first elements.
  std::vector<ByteSet> sets;
  std::array<uint32_t, 256> singles{}; // One more than the set of a single byte; 0: none so far.
};

/// Owned by one sequence; copied to try a token. The grammar must outlive it.
class GrammarState {
public:
  explicit GrammarState(const Grammar &matched);

  /// Matches one byte. Returns false, and keeps no way to continue, if it may not come next.
  bool take(unsigned char byte);
  /// Whether the text may end here.
  bool canEnd() const { return ends; }
  /// Whether more may follow.
  bool canContinue() const { return !stacks.empty(); }
  /// Whether there were more ways to continue than a state keeps: it takes only some of the texts.
  bool hasLostWays() const { return lostWays; }
  /// Steps that the last byte took.
  uint32_t work() const { return tries; }
  /// What the state's memory grows with.
  size_t size() const;

  friend bool operator==(const GrammarState &a, const GrammarState &b) {
    return a.ends == b.ends && a.stacks == b.stacks;
  }
  friend bool operator<(const GrammarState &a, const GrammarState &b) {
    return a.ends != b.ends ? a.ends < b.ends : a.stacks < b.stacks;
  }

private:
  /// Elements to match, the next one last. It is a set of bytes.
  using Stack = std::vector<uint32_t>;

  /// Adds all ways to match the stack's next element. calls: how deep this call is.
  void expand(Stack stack, uint32_t calls);

  const Grammar *grammar;
  std::vector<Stack> stacks; // Sorted, without duplicates.
  bool ends = false;
  bool lostWays = false;
  uint32_t tries = 0; // To expand stacks, since the last byte.
};

} // namespace moert
