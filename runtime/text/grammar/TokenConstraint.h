// Which tokens may come next in a text that a grammar describes.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/GrammarAutomaton.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moert {

class Tokenizer;

/// The bytes of a vocabulary's tokens, sorted, so that tokens with a common beginning are matched
/// together. Immutable; the tokenizer is not needed after its creation.
class TokenTexts {
public:
  explicit TokenTexts(const Tokenizer &tokenizer);
  /// For tests: entry i is token i; an empty text never fits.
  explicit TokenTexts(std::vector<std::string> texts);

  std::string_view textOf(int32_t token) const;
  /// Bytes allocated for a vocabulary whose tokens have that many bytes together.
  static uint64_t memoryBytes(uint64_t tokens, uint64_t textBytes);
  uint64_t tokens() const { return begins.size(); }
  /// The token of the longest text that a text begins with.
  std::optional<int32_t> longestBeginning(std::string_view text) const;

  /// The tokens with a text, by its bytes.
  std::span<const int32_t> inOrder() const { return sorted; }
  /// Bytes that the text of entry `index` of these shares with the one before it.
  uint32_t sharedBytes(size_t index) const { return shared[index]; }
  /// The first index after `index` of a text that has not the same first `count` bytes.
  size_t endOfEqual(size_t index, size_t count) const;

private:
  void sort();
  void append(std::string_view text);

  std::string bytes; // All texts, by token.
  std::vector<uint32_t> begins;
  std::vector<int32_t> sorted;
  std::vector<uint32_t> shared; // By entry of `sorted`.
};

/// What sequences with the same grammar find out together: the states of its texts, and the tokens
/// that are allowed in some of them. Used by one thread. The texts must outlive it.
class GrammarMatcher {
public:
  using State = GrammarAutomaton::State;
  using TokenSet = std::vector<uint64_t>; // Bit i % 64 of entry i / 64: token i.
  /// Sequences that share one: the automaton keeps a state of each, and one that is looked at.
  static constexpr size_t kMostUsers = GrammarAutomaton::kMostKept - 1;

  GrammarMatcher(std::shared_ptr<const Grammar> textGrammar, const TokenTexts &texts)
      : grammar(std::move(textGrammar)), tokenTexts(texts), automaton(*grammar) {}

  bool isOf(const Grammar &wanted, const TokenTexts &wantedTexts) const {
    return grammar.get() == &wanted && &tokenTexts == &wantedTexts;
  }
  const TokenTexts &texts() const { return tokenTexts; }
  const GrammarAutomaton &states() const { return automaton; }

  /// Whether another sequence may share it.
  bool hasRoom() const { return users.size() < kMostUsers; }
  /// A sequence's state, which gets new numbers with the others.
  void addUser(State &state) { users.push_back(&state); }
  void removeUser(State &state) { std::erase(users, &state); }

  /// The state after a byte. Makes room before, so that all states but the constraints' own and the
  /// result may have new numbers, or none. Throws std::bad_alloc, and then all states are as they
  /// were.
  State next(State from, char byte);
  /// Times that states got new numbers.
  uint64_t compactions() const { return compactionCount; }

  /// Allowed tokens of a sequence's state; nullptr: not known.
  const TokenSet *knownTokens(State state) const;
  void remember(State state, TokenSet tokens);

  /// Counts a token that was looked at.
  void visit() { ++visited; }
  /// Steps since its start.
  uint64_t steps() const { return automaton.steps() + visited; }

private:
  void makeRoom(State &from);

  const std::shared_ptr<const Grammar> grammar; // Shared by a request's sequences.
  const TokenTexts &tokenTexts;
  GrammarAutomaton automaton;
  std::vector<State *> users;      // The constraints' states.
  std::map<State, TokenSet> known; // Most texts are in few states, most of them inside strings.
  uint64_t visited = 0;            // Tokens, by constraints.
  uint64_t compactionCount = 0;
};

/// The matchers of a thread's sequences.
class GrammarMatchers {
public:
  /// One that sequences of the same grammar use, if there is room for another one.
  std::shared_ptr<GrammarMatcher> matcherOf(const std::shared_ptr<const Grammar> &grammar,
                                            const TokenTexts &texts);

private:
  std::vector<std::weak_ptr<GrammarMatcher>> matchers; // Those that sequences use.
};

/// Owned by one sequence, used by its matcher's thread. After std::bad_alloc it can only be
/// destroyed; the others of its matcher go on.
///
/// Whether a token is allowed takes a step for each of its bytes, and those of states that the
/// automaton does not know yet. Finding all allowed tokens goes through the vocabulary once, in
/// the order of bytes: a step for each byte in which a token differs from the one before it, and
/// one for all that begin with the same bytes that do not fit. A caller can do a part of the steps
/// at a time.
class TokenConstraint {
public:
  /// endTokens: allowed where the text may end, and nothing after it.
  TokenConstraint(std::shared_ptr<GrammarMatcher> sharedMatcher, std::vector<int32_t> endTokens);
  TokenConstraint(const TokenConstraint &) = delete;
  TokenConstraint &operator=(const TokenConstraint &) = delete;
  ~TokenConstraint();

  /// Bytes that a constraint and its matcher allocate at most, beside
  /// GrammarAutomaton::kCompactBytes for a moment: those of one thread share these.
  static uint64_t memoryBytes(uint32_t vocabularySize);

  bool allows(int32_t token);
  /// Goes on to find the tokens that are allowed next, for about so many steps. Returns true once
  /// they are known.
  bool findAllowed(uint64_t steps);
  /// Lists them, sorted, after findAllowed() returned true. Fails if there are none.
  Status listAllowed(std::vector<int32_t> &tokens) const;
  /// Whether few bytes may come next: then most tokens are not allowed, and finding all that are
  /// takes few steps. Takes none itself.
  bool isNarrow() const;
  /// An allowed token; end tokens change nothing.
  void take(int32_t token);
  /// Tokens, at most so many, of the text that has to come next: the longest ones that it consists
  /// of, which a model is likely to choose, but need not.
  std::vector<int32_t> forcedTokens(size_t most);
  /// Whether the text has ended: nothing may follow.
  bool hasEnded() const {
    return matcher->states().canEnd(state) && !matcher->states().canContinue(state);
  }
  /// Steps of the matcher since its start.
  uint64_t steps() const { return matcher->steps(); }

private:
  using State = GrammarMatcher::State;
  using TokenSet = GrammarMatcher::TokenSet;

  /// The way through the sorted texts, from `state`.
  struct Search {
    Search() {} // Declared, since clang decides before the initializers below whether there is one.
    size_t next = 0; // Index of the sorted texts.
    /// path[d]: after d bytes of the last text that was matched; kForgotten where the state has no
    /// number any more.
    std::vector<State> path;
    size_t common = 0;        // Bytes that the next text may share with it.
    size_t failed = SIZE_MAX; // So many of its bytes fit; SIZE_MAX: all.
    TokenSet allowed;
    uint64_t compactions = 0; // When the path's numbers were those of the automaton.
  };

  bool isEndToken(int32_t token) const;
  void matchNext();
  /// Forgets the path but for its ends, if the states have got new numbers.
  void renewPath(State last);

  const std::shared_ptr<GrammarMatcher> matcher; // Shared by sequences of the same grammar.
  const std::vector<int32_t> ends;
  State state;
  std::optional<Search> search;
};

} // namespace moert
