#include "runtime/text/tokenizer/ByteTokens.h"

#include <algorithm>

namespace moert {

ByteTokens::ByteTokens(const VocabularyView &vocabulary, bool byteFallback) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < ids.size(); ++byte) {
    const char token[] = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
    ids[byte] = byteFallback ? vocabulary.find({token, sizeof(token)}).value_or(-1) : -1;
  }
}

bool ByteTokens::hasAll(std::string_view text) const {
  return std::all_of(text.begin(), text.end(), [&](char byte) { return id(byte) >= 0; });
}

} // namespace moert
