// Normalizes text as the normalizer list of a tokenizer says, exactly as the reference package
// does: Unicode normalization after version 9 of the standard, which is the one that package
// carries.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/TokenizerModel.h"

#include <span>
#include <string>
#include <string_view>

namespace moert {

/// Refuses a list by which a text could grow beyond all bounds (only a hostile file has one).
Status checkNormalizers(std::span<const NormalizerStep> steps);

/// Whether a step may take characters away from the front of a text.
bool mayTakeFront(const NormalizerStep &step);

/// Normalizes text, which is valid UTF-8, in place.
void normalizeText(std::span<const NormalizerStep> steps, std::string &text);

/// text with every occurrence of pattern, which is not empty, replaced, from left to right.
std::string replaceAll(std::string_view text, std::string_view pattern, std::string_view content);

} // namespace moert
