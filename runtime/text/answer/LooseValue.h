// Values as models write them in calls that are no JSON: Python's literals, and Gemma's with names
// without quotes and strings between marks of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// Takes a value from the front of a text and returns it as JSON: a string between '"', "'" or
/// `quote`, a number, true, True, null, None and so on, a list, or an object. Absent if there is
/// none, or one of more than 64 levels.
std::optional<std::string> takeLooseValue(std::string_view &text, std::string_view quote,
                                          uint32_t levels = 64);

/// Takes the letters, digits, '_', '-' and '.' at the front, after white space.
std::string_view takeName(std::string_view &text);

} // namespace moert
