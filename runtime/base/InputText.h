// Text input of a command: from a file, or from standard input for "-".
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

/// The name for messages: 'FILE' or standard input.
std::string inputName(const std::string &path);

/// The whole content. Refuses a missing or unreadable file, a directory, and more than `mostBytes`.
Result<std::string> readInput(const std::string &path, uint64_t mostBytes = uint64_t(1) << 30);

/// Refuses text that is not UTF-8 and names the first wrong byte. `what` is the file or option that
/// the text came from.
Status checkUtf8(std::string_view text, std::string_view what);

} // namespace moert
