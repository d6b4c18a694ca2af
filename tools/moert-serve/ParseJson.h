// Parses JSON in a time that grows with the text, whatever it is: the library's own parser compares
// each member's name with those of all members before it.
#pragma once

#include "tools/moert-serve/ApiError.h"

#include <cstddef>
#include <optional>
#include <string_view>

namespace moert::serve {

/// Returns how many bytes a text that is not valid JSON has up to its fault, the byte with it
/// included. A name that an object has twice keeps its first place and has its last value, as with
/// the library.
std::optional<size_t> parseJson(std::string_view text, Json &parsed);

} // namespace moert::serve
