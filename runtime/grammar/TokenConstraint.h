// Which tokens may come next in a text that a grammar describes.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/grammar/GrammarAutomaton.h"

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
  /// Bytes in which the sorted texts differ from those before them.
  uint64_t distinctBytes() const { return distinct; }

private:
  friend class TokenConstraint;

  void sort();
  void append(std::string_view text);

  std::string bytes; // All texts, by token.
  std::vector<uint32_t> begins;
  std::vector<int32_t> sorted;  // Tokens with a text, by its bytes.
  std::vector<uint32_t> shared; // Bytes that entry i of `sorted` shares with the one before.
  uint64_t distinct = 0;
};

/// Owned by one sequence, used by one thread. The texts must outlive it.
///
/// Finding the allowed tokens goes through the vocabulary once: a step for each token, one for each
/// byte in which it differs from the token before it in the order of bytes, and those of states
/// that the automaton does not know yet. A caller can do a part of the steps at a time.
class TokenConstraint {
public:
  /// endTokens: allowed where the text may end, and nothing after it.
  TokenConstraint(std::shared_ptr<const Grammar> textGrammar, // Shared by a request's sequences.
                  const TokenTexts &tokenTexts, std::vector<int32_t> endTokens);

  /// Steps that finding the allowed tokens takes at most; beyond them it is given up.
  static uint64_t mostSteps(const TokenTexts &texts);
  /// Bytes that a constraint allocates at most, beside GrammarAutomaton::kCompactBytes for a
  /// moment: constraints of one thread share these.
  static uint64_t memoryBytes(uint32_t vocabularySize);

  bool allows(int32_t token);
  /// Goes on to find the tokens that are allowed next, for about so many steps. Returns true once
  /// they are known. Fails where the grammar has too many ways to continue the text.
  Result<bool> findAllowed(uint64_t steps);
  /// Makes the logits of all other tokens -infinity, after findAllowed() returned true. Fails if no
  /// token is allowed.
  Status mask(std::span<float> logits) const;
  /// An allowed token; end tokens change nothing.
  void take(int32_t token);
  /// Whether the text has ended: nothing may follow.
  bool hasEnded() const { return automaton.canEnd(state) && !automaton.canContinue(state); }
  /// Steps since the start.
  uint64_t steps() const { return automaton.steps() + visited; }

private:
  using State = GrammarAutomaton::State;
  using TokenSet = std::vector<bool>;

  /// The way through the sorted texts, from `state`.
  struct Search {
    Search() {} // Declared, since clang decides before the initializers below whether there is one.
    size_t next = 0;          // Index of the sorted texts.
    std::vector<State> path;  // path[d]: after d bytes of the last text that was matched.
    size_t common = 0;        // Bytes that the next text may share with it.
    size_t failed = SIZE_MAX; // So many of its bytes fit; SIZE_MAX: all.
    TokenSet allowed;
    uint64_t begin = 0; // steps() when it began.
  };

  bool isEndToken(int32_t token) const;
  void matchNext();
  /// Makes room in the automaton; the states in use and *also get new numbers.
  void compact(State *also);

  std::shared_ptr<const Grammar> grammar;
  const TokenTexts &texts;
  const std::vector<int32_t> ends;
  GrammarAutomaton automaton;
  State state;
  uint64_t visited = 0; // Tokens, by searches.
  std::optional<Search> search;
  /// A text of some length is in few states, most of them inside strings.
  std::map<State, TokenSet> known;
};

} // namespace moert
