// Which tokens may come next in a text that a grammar describes.
#pragma once

#include "runtime/grammar/Grammar.h"

#include <cstdint>
#include <map>
#include <memory>
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

private:
  friend class TokenConstraint;

  void sort();
  void append(std::string_view text);

  std::string bytes; // All texts, by token.
  std::vector<uint32_t> begins;
  std::vector<int32_t> sorted;  // Tokens with a text, by its bytes.
  std::vector<uint32_t> shared; // Bytes that entry i of `sorted` shares with the one before.
};

/// Owned by one sequence, used by one thread. The texts must outlive it.
class TokenConstraint {
public:
  /// endTokens: allowed where the text may end, and nothing after it.
  TokenConstraint(std::shared_ptr<const Grammar> textGrammar, // Shared by a request's sequences.
                  const TokenTexts &tokenTexts, std::vector<int32_t> endTokens);

  bool allows(int32_t token) const;
  /// Makes the logits of all other tokens -infinity. Fails if no token is allowed, and where the
  /// grammar has so many ways to continue that finding the tokens would take too long.
  Status mask(std::span<float> logits);
  /// An allowed token; end tokens change nothing.
  void take(int32_t token);
  /// Whether the text has ended: nothing may follow.
  bool hasEnded() const { return state.canEnd() && !state.canContinue(); }

private:
  using TokenSet = std::vector<bool>;

  bool isEndToken(int32_t token) const;
  Status mask(std::span<float> logits, const TokenSet &allowed) const;
  Result<TokenSet> allowedTokens() const;

  std::shared_ptr<const Grammar> grammar;
  const TokenTexts &texts;
  const std::vector<int32_t> ends;
  GrammarState state;
  /// A text of some length is in few states, most of them inside strings.
  std::map<GrammarState, TokenSet> known;
};

} // namespace moert
