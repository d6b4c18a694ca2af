// The texts of an evaluation: from files to token ids.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace moert {

struct EvaluationTexts {
  std::vector<std::vector<int32_t>> ids; // Of each file.
  uint64_t windows = 0;                  // Of all; at least one.
  uint64_t bytes = 0; // What an evaluation holds for them, the largest file once included.
};

/// Tokenizes each file whole, with the special tokens that the tokenizer puts around a text.
/// Refuses files that cannot be read or are not UTF-8, and texts of which none has a whole window.
/// `note` hears, in a sentence, of each that is left out for that reason.
Result<EvaluationTexts> readEvaluationTexts(std::span<const std::string> files,
                                            const Tokenizer &tokenizer, uint32_t windowTokens,
                                            const std::function<void(const std::string &)> &note);

} // namespace moert
