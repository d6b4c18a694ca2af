// Text that a command takes in: from a file, or from standard input as "-".
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

/// How messages name it: 'FILE', or standard input.
std::string inputName(const std::string &path);

/// The whole content. Refuses a missing or unreadable file, a folder, and more than so many bytes.
Result<std::string> readInput(const std::string &path, uint64_t mostBytes = uint64_t(1) << 30);

/// Refuses text that is not UTF-8, naming the first byte that is wrong. `what` is the file or the
/// option that it came from.
Status checkUtf8(std::string_view text, std::string_view what);

} // namespace moert
