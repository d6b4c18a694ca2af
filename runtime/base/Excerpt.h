// How messages quote what a file says: names and values there may be of any length and hold
// anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moert {

/// Enough to find the place in the file, short enough for the message to stay one.
constexpr size_t kExcerptBytes = 80;

/// The text with its control characters escaped; of a longer one the first characters that fit into
/// `most` bytes and "...".
std::string excerpt(std::string_view text, size_t most = kExcerptBytes);

} // namespace moert
