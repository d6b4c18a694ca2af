// Unicode's normalization forms as the reference package has them: of version 9 of the standard.
#pragma once

#include "runtime/text/tokenizer/TokenizerModel.h"

#include <string>
#include <string_view>

namespace moert {

/// text, which is valid UTF-8, in the form kNfc, kNfd, kNfkc or kNfkd.
std::string toUnicodeForm(std::string_view text, NormalizerStep::Kind form);

} // namespace moert
