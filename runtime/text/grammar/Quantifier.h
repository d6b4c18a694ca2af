// Quantifiers as patterns and grammars write them: *, +, ?, {2}, {2,} and {2,5}.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace moert {

struct Quantifier {
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  uint32_t least = 0, most = kUnbounded; // May be less than least. A larger number is one below.
};

/// Takes a quantifier from a place of the text; none, and the place stays, where there is another
/// text. isLoose: also {,5}, and spaces beside the numbers.
inline std::optional<Quantifier> takeQuantifier(std::string_view text, size_t &place,
                                                bool isLoose) {
  size_t at = place;
  const auto accept = [&](char wanted) {
    const bool isThere = at < text.size() && text[at] == wanted;
    at += isThere ? 1 : 0;
    return isThere;
  };
  const auto takeNumber = [&]() -> std::optional<uint32_t> {
    while (isLoose && (accept(' ') || accept('\t'))) {
    }
    uint32_t number = 0;
    const char *const begin = text.data() + at;
    const auto [end, fault] = std::from_chars(begin, text.data() + text.size(), number);
    at += static_cast<size_t>(end - begin);
    while (isLoose && (accept(' ') || accept('\t'))) {
    }
    if (fault == std::errc::invalid_argument)
      return std::nullopt;
    return fault == std::errc() ? std::min(number, Quantifier::kUnbounded - 1)
                                : Quantifier::kUnbounded - 1;
  };
  Quantifier found;
  if (accept('+')) {
    found.least = 1;
  } else if (accept('?')) {
    found.most = 1;
  } else if (accept('{')) {
    const std::optional<uint32_t> first = takeNumber();
    const bool isRange = accept(',');
    const std::optional<uint32_t> last = isRange ? takeNumber() : first;
    if (!accept('}') || (!first && (!isLoose || !last)))
      return std::nullopt;
    found = {first.value_or(0), last.value_or(Quantifier::kUnbounded)};
  } else if (!accept('*')) {
    return std::nullopt;
  }
  place = at;
  return found;
}

} // namespace moert
