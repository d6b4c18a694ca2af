// Reads a checkpoint's tokenizer.json. For the compiler and the tests; the runtime never sees this
// format. Whatever the file asks for that is not supported is refused by its name, since a step
// left out would give wrong ids in silence. Truncation and padding are ignored: they are wishes of
// a caller.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/TokenizerModel.h"

#include <string_view>

namespace moert {

/// The tokenizer that text describes. fileName is what error messages call it. A model that this
/// returns can be stored (writeTokenizerTable) and then loads.
Result<TokenizerModel> parseTokenizerJson(std::string_view text, std::string_view fileName);

} // namespace moert
