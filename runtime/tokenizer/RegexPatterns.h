// Known patterns and their translation for PCRE2; see Regex.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// A pattern for PCRE2 (UTF, UCP, multi-line) with the meaning that the given one has in Oniguruma,
/// whose character tables are of Unicode 16. nullopt if the pattern is not known.
std::optional<std::string> translatePattern(std::string_view pattern);

} // namespace moert
