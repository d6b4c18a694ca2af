// What a session holds of a conversation, as text and tokens, and which tokens the next prompt
// adds.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert::cli {

/// The tokens that continue a session's.
struct PromptTokens {
  std::vector<int32_t> tokens; // The whole prompt.
  size_t kept = 0;             // How many of them, at the front, are the session's.
};

/// What a session holds as text and tokens. Used by one thread; the tokenizer must outlive it.
class SessionText {
public:
  explicit SessionText(const Tokenizer &source) : tokenizer(source) {}

  /// The tokens of a prompt. The session's are kept if the prompt begins with their text and the
  /// rest begins with a special token, where no token can extend across the place; so an answer
  /// keeps the tokens that were generated, although its text alone may have others. Otherwise the
  /// prompt is tokenized anew, and the tokens in common at the front are kept.
  Result<PromptTokens> tokensOf(std::string_view prompt) const;

  /// What the session was given since, and what it generated, special tokens included.
  void set(std::string wholeText, std::vector<int32_t> allTokens);

  const std::vector<int32_t> &ids() const { return tokens; }
  void clear() { set({}, {}); }

private:
  const Tokenizer &tokenizer;
  std::string text;
  std::vector<int32_t> tokens;
};

} // namespace moert::cli
