#include "tools/moert/chat/SessionText.h"

#include <algorithm>

namespace moert::cli {

Result<PromptTokens> SessionText::tokensOf(std::string_view prompt) const {
  if (!text.empty() && prompt.starts_with(text)) {
    const std::string_view rest = prompt.substr(text.size());
    MOERT_ASSIGN_OR_RETURN(const std::vector<int32_t> more, tokenizer.encode(rest, false));
    if (!more.empty() && tokenizer.isSpecial(more.front()) &&
        rest.starts_with(tokenizer.contentOf(more.front()))) {
      PromptTokens continued{tokens, tokens.size()};
      continued.tokens.insert(continued.tokens.end(), more.begin(), more.end());
      return continued;
    }
  }
  PromptTokens anew;
  MOERT_ASSIGN_OR_RETURN(anew.tokens, tokenizer.encode(prompt, false));
  const auto parts =
      std::mismatch(anew.tokens.begin(), anew.tokens.end(), tokens.begin(), tokens.end());
  anew.kept = static_cast<size_t>(parts.first - anew.tokens.begin());
  return anew;
}

void SessionText::set(std::string wholeText, std::vector<int32_t> allTokens) {
  text = std::move(wholeText);
  tokens = std::move(allTokens);
}

} // namespace moert::cli
