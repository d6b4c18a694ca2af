// Matches texts by a grammar, byte by byte: which bytes may come next, and whether the text may
// end.
//
// A state is the set of all ways to continue. A way is the element that is to be matched next and
// the places to return to after its rule, as a list that ways with the same rest share. A state,
// and what follows it after a byte, are found once and remembered: a text inside a string stays in
// a few states, so that matching a byte is a look into a table.
//
// The memory is bounded: when isFull(), compact() keeps the states that are needed. So is the work
// for a byte: where a state would have more than Grammar::kMostWays ways, or these more than
// kMostNodes nodes, the byte may not come next, and hasLostWays(). Whether it may depends on the
// text before it alone, not on what else was matched.
#pragma once

#include "runtime/text/grammar/Grammar.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// Used by one thread. The grammar must outlive it.
class GrammarAutomaton {
public:
  /// A number of this automaton's until compact() changes it.
  using State = uint32_t;
  static constexpr State kNone = 0; // Nothing fits.
  /// Bytes that it allocates at most, and beyond them while compact() has what it copies from.
  static constexpr uint64_t kMostBytes = uint64_t(5) << 18, kCompactBytes = kMostBytes;
  /// States that compact() keeps at most, and nodes that each has.
  static constexpr size_t kMostKept = 5, kMostNodes = 2560;

  explicit GrammarAutomaton(const Grammar &matched);

  State start() const { return startState; }
  /// The state after a byte; kNone if the byte may not come next.
  State next(State state, unsigned char byte);
  /// Whether the text may end here.
  bool canEnd(State state) const { return states[state].ends; }
  /// Whether more may follow.
  bool canContinue(State state) const { return states[state].wayCount > 0; }
  /// The byte that has to come next, if it is a single one.
  std::optional<unsigned char> onlyByte(State state) const;
  /// Whether more than so many bytes may come next, those that too many ways follow among them.
  bool hasMoreBytes(State state, size_t most) const;
  /// Whether a state would have had more ways than it may: texts that fit may be refused since.
  bool hasLostWays() const { return lostWays; }
  /// Bytes looked up and ways tried, since the start.
  uint64_t steps() const { return stepCount; }

  /// Whether compact() is due.
  bool isFull() const;
  /// Forgets all states but these, kMostKept at most, and the start, and gives them new numbers.
  /// Throws std::bad_alloc, and then all states are as they were.
  void compact(std::span<State> kept);

private:
  /// Something to match, or to continue with after a rule.
  struct Node {
    uint32_t element;
    uint32_t parent;   // Where the text continues after the element's alternative.
    uint32_t depth;    // Number of parents.
    uint32_t lastSeen; // The expansion that had it last.
  };
  struct StateEntry {
    uint32_t firstWay, wayCount;
    bool ends;
  };
  /// Numbers of things by their hash: one more than the number, 0 in free places. Its size is a
  /// power of two, larger than the most that it may hold.
  using HashTable = std::vector<uint32_t>;
  static constexpr uint32_t kTextEnd = 0; // The node after which the text ends.
  static constexpr uint32_t kUnknown = UINT32_MAX;

  /// What compact() makes of a full one.
  GrammarAutomaton(const GrammarAutomaton &full, std::span<State> kept);

  void clear();
  uint32_t nodeOf(uint32_t element, uint32_t parent);
  /// The state of the ways and the end that were found.
  State stateOfFound();

  // An expansion finds the ways to match what is at some elements.
  void beginExpansion();
  /// Adds an element with what follows its alternative.
  void reach(uint32_t element, uint32_t parent);
  void reachRule(uint32_t rule, uint32_t parent);
  /// Whether the ways that were found are more, or have more nodes, than a state may have.
  bool isTooLarge();
  State endExpansion();

  const Grammar *grammar;
  std::array<uint8_t, 256> classOf{}; // Bytes of a class are in the same sets.
  uint32_t classes = 0;
  std::vector<Node> nodes;
  std::vector<StateEntry> states;
  std::vector<uint32_t> ways;   // Sorted nodes, of all states.
  std::vector<State> followers; // By state and class; kUnknown where none was looked for.
  HashTable nodeTable, stateTable;
  State startState = kNone;
  bool lostWays = false;
  uint64_t stepCount = 0;
  // The expansion under way.
  uint32_t expansion = 0;
  size_t tries = 0;
  std::vector<uint32_t> found, pending;
  bool foundEnd = false;
};

} // namespace moert
