// Applies a tokenizer's normalizer list to text exactly as the reference package does: Unicode
// normalization follows version 9 of the standard, the one that package uses.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/TokenizerModel.h"

#include <span>
#include <string>
#include <string_view>

namespace moert {

/// Refuses a list that could grow a text without bounds (only a hostile file has one).
Status checkNormalizers(std::span<const NormalizerStep> steps);

/// Whether a step may remove characters from the front of a text.
bool mayTakeFront(const NormalizerStep &step);

/// Normalizes text, which must be valid UTF-8, in place.
void normalizeText(std::span<const NormalizerStep> steps, std::string &text);

/// text with every occurrence of pattern, which must not be empty, replaced, from left to right.
std::string replaceAll(std::string_view text, std::string_view pattern, std::string_view content);

} // namespace moert
