// Known patterns and their translation for PCRE2; see Regex.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// A pattern for PCRE2 (UTF, UCP, multi-line) that means what the given one means to Oniguruma,
/// whose character tables are of Unicode 16. nullopt where that is not known.
std::optional<std::string> translatePattern(std::string_view pattern);

} // namespace moert
