// How messages show what others wrote, in a file or as its name: it may be of any length and hold
// anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moert {

/// Enough to find the place in the file, short enough for the message to stay one.
constexpr size_t kExcerptBytes = 80;

/// The text with its control characters and broken UTF-8 escaped; of a longer one the first
/// characters that fit into `most` bytes and "...".
std::string excerpt(std::string_view text, size_t most = kExcerptBytes);

/// A whole message, escaped in the same way but for its line breaks and tabs: the names of files in
/// it may hold anything too.
std::string printable(std::string_view text);

} // namespace moert
