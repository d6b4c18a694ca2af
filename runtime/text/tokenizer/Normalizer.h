// Applies a tokenizer's normalizer list to text exactly as the reference package does.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/Charsmap.h"
#include "runtime/text/tokenizer/Regex.h"
#include "runtime/text/tokenizer/TokenizerModel.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The normalizer list of a tokenizer, compiled. Movable; apply() may be called from many threads.
class Normalizer {
public:
  /// Refuses broken patterns and character maps, and a list that could grow a text without bounds
  /// (only a hostile file has one).
  static Result<Normalizer> make(std::vector<NormalizerStep> list);

  bool isEmpty() const { return steps.empty(); }

  /// Normalizes text, which must be valid UTF-8, in place.
  Status apply(std::string &text, RegexScratch &scratch) const;

  uint64_t memoryBytes() const;

private:
  struct Step {
    NormalizerStep what;
    std::vector<Regex> regex;       // One or none.
    std::vector<Charsmap> charsmap; // One or none.
  };

  Status applyStep(const Step &compiled, std::string &text, RegexScratch &scratch) const;

  std::vector<Step> steps;
};

/// Whether a step may remove or replace the first character of a text, after which the reference
/// package no longer counts the text as its front. replacement: Metaspace's character.
bool mayTakeFront(const NormalizerStep &step, std::string_view replacement);

/// text with every occurrence of pattern, which must not be empty, replaced, from left to right.
std::string replaceAll(std::string_view text, std::string_view pattern, std::string_view content);

} // namespace moert
