// Untrusted text in messages, such as file names and file contents: of any length, with any bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moert {

/// Long enough to find the place in the file, short enough for one message.
constexpr size_t kExcerptBytes = 80;

/// The text with control characters and broken UTF-8 escaped. A longer text is cut to the
/// characters that fit into `most` bytes, followed by "...".
std::string excerpt(std::string_view text, size_t most = kExcerptBytes);

/// A whole message, escaped in the same way except for line breaks and tabs: file names in it may
/// contain any bytes.
std::string printable(std::string_view text);

} // namespace moert
