// The text of generated tokens up to a stop text: decodes token by token and omits special tokens,
// which stop texts can still match. Some special tokens can be text, such as those that begin a
// call of a tool.
#pragma once

#include "runtime/text/answer/StopText.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// Owned by one sequence, used by one thread. The tokenizer must outlive it.
class GeneratedText {
public:
  /// shownTokens: special tokens that are text.
  GeneratedText(const Tokenizer &source, StopText stopText, std::vector<int32_t> shownTokens = {})
      : tokenizer(source), decoder(source, true), stops(std::move(stopText)),
        shownSpecials(std::move(shownTokens)) {}

  /// Appends to `shown` the text that this token completes. Returns true once a stop text is
  /// complete; the text before it has then been appended, and no more tokens may be given.
  bool take(int32_t token, std::string &shown);

  /// Ends the tokens: appends the text that was held back. True if a stop text is complete.
  bool finish(std::string &shown);

  bool isStopped() const { return stops.isStopped(); }

private:
  bool takeSpecial(std::string_view content, std::string &shown);

  const Tokenizer &tokenizer;
  StreamingDecoder decoder;
  StopText stops;
  std::vector<int32_t> shownSpecials;
};

} // namespace moert
