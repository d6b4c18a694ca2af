// Reads a checkpoint's tokenizer.json. For the compiler and the tests; the runtime never reads this
// format. Unsupported features are refused by name, because a skipped step would give wrong ids
// silently. Truncation and padding are ignored: they depend on the caller.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/TokenizerModel.h"

#include <string_view>

namespace moert {

/// The tokenizer that text describes. Error messages begin with fileName. A returned model can be
/// stored (writeTokenizerTable) and then loads.
Result<TokenizerModel> parseTokenizerJson(std::string_view text, std::string_view fileName);

} // namespace moert
