#include "runtime/text/answer/GeneratedText.h"

#include <algorithm>

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
  if (!tokenizer.isSpecial(token))
    return stops.feed(decoder.feed(token), shown);
  const std::string_view content = tokenizer.contentOf(token);
  if (std::find(shownSpecials.begin(), shownSpecials.end(), token) == shownSpecials.end())
    return takeSpecial(content, shown);
  // It ends the text that later tokens could have completed.
  return stops.feed(decoder.flush(), shown) || stops.feed(content, shown);
}

bool GeneratedText::finish(std::string &shown) {
  if (!stops.isStopped())
    stops.feed(decoder.flush(), shown);
  stops.flush(shown);
  return stops.isStopped();
}

} // namespace moert
