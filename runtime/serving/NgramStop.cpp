#include "runtime/serving/NgramStop.h"

#include <algorithm>

namespace moert {

constexpr uint32_t kMaxNgramTokens = 4096;

Status check(const NgramStopOptions &options) {
  if (options.tokens == 0)
    return {};
  if (options.tokens > kMaxNgramTokens)
    return invalidInput("an n-gram of ", options.tokens, " tokens, expected at most ",
                        kMaxNgramTokens);
  if (options.times < 2)
    return invalidInput("an n-gram stop after ", options.times,
                        " occurrences, expected at least 2");
  return {};
}

bool repeatsItself(const NgramStopOptions &options, std::span<const int32_t> tokens) {
  if (options.tokens == 0 || tokens.size() < options.tokens)
    return false;
  // Compared from the end: most places differ in the last token already.
  uint32_t occurrences = 1;
  for (size_t end = options.tokens; end < tokens.size(); ++end)
    if (std::equal(tokens.rbegin(), tokens.rbegin() + options.tokens,
                   tokens.rend() - static_cast<ptrdiff_t>(end)))
      ++occurrences;
  return occurrences >= options.times;
}

} // namespace moert
