// The character sets that regular expressions name, as members of a PCRE2 character class.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// The members of \p{name}, where name is a general category or a script. nullopt if the name is
/// not known. forWordPattern: also those binary properties that only kWordPattern may use.
std::optional<std::string> propertyMembers(std::string_view name, bool forWordPattern);

/// White_Space, the members of \s.
extern const std::string_view kWhiteSpaceMembers;

} // namespace moert
