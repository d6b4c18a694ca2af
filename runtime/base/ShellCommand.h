// Command lines as text for a shell: quoted words, and long lines continued.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moert {

/// The word in single quotes if a shell would change it.
std::string quotedWord(const std::string &word);

/// The command after two spaces. Lines of more than `width` characters are continued before options
/// and `&&`, never within quotes; continued lines end with a backslash.
std::string wrappedCommand(std::string_view command, size_t width);

} // namespace moert
