// The bytes that a token adds in the middle of a text.
#pragma once

#include "runtime/text/tokenizer/TokenizerModel.h"

#include <string>
#include <string_view>

namespace moert {

/// The decoders applied to one token alone. What they do at the ends of a text is left out, and
/// bytes that are a part of a character stay unchanged.
std::string tokenBytes(const TokenizerPipeline &pipeline, std::string_view content);

} // namespace moert
