// Checks the nesting depth of a module's text before MLIR reads it: MLIR's parser and printer use
// stack for every level and have no limit, so that a module of some 10,000 levels ends the process.
// It scans the text only and does not check whether the text is a module.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string_view>

namespace moec {

/// A module of this compiler has some ten levels. MLIR takes up to 1 KiB of 8 MiB of stack for
/// each.
inline constexpr uint32_t kMaxParseDepth = 1000;

/// Refuses text with more than kMaxParseDepth levels; the message names the file and the line.
/// Levels are open brackets, operators of one sum, and aliases of aliases. Strings and comments
/// have none. Bytecode, which MLIR reads without recursion, passes unread.
moert::Status checkParseDepth(std::string_view text, std::string_view fileName);

} // namespace moec
