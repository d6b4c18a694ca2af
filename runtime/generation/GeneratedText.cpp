#include "runtime/generation/GeneratedText.h"

namespace moert {

/// Text that the decoder holds back would come after the special token if a later token completes
/// it, but before it if the text ends here. So no stop text extends across such a place.
bool GeneratedText::takeSpecial(std::string_view content, std::string &shown) {
  const bool holdsText = decoder.holdsText();
  if (holdsText)
    stops.flush(shown);
  if (!stops.feedHidden(content, shown))
    return false;
  if (holdsText)
    shown += decoder.flush();
  return true;
}

bool GeneratedText::take(int32_t token, std::string &shown) {
  return tokenizer.isSpecial(token) ? takeSpecial(tokenizer.contentOf(token), shown)
                                    : stops.feed(decoder.feed(token), shown);
}

bool GeneratedText::finish(std::string &shown) {
  if (!stops.isStopped())
    stops.feed(decoder.flush(), shown);
  stops.flush(shown);
  return stops.isStopped();
}

} // namespace moert
