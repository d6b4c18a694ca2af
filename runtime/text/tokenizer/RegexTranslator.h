// Translates a tokenizer's regular expression for PCRE2; see Regex.h.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>

namespace moert {

/// A pattern for PCRE2 (UTF, UCP, multi-line) with the meaning that the given one has in Oniguruma,
/// whose character tables are of Unicode 16. Accepts the syntax that both engines have and refuses
/// the rest by name.
Result<std::string> translatePattern(std::string_view pattern);

} // namespace moert
