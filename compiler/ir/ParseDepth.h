// How deep a module's text is nested, found before MLIR reads it: MLIR's parser and printer take
// stack for every level and have no limit, so that a module of some 10,000 levels ends the process.
// A scan of the text alone; it does not say whether the text is a module.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string_view>

namespace moec {

/// A module of ours has some ten levels. MLIR takes up to 1 KiB of stack for each, of 8 MiB.
inline constexpr uint32_t kMaxParseDepth = 1000;

/// Refuses text with more than kMaxParseDepth levels, naming the file and the line. Levels are
/// brackets that are open, operators of one sum, and aliases that stand for aliases. Strings and
/// comments have none. Bytecode, which MLIR reads without recursion, passes unread.
moert::Status checkParseDepth(std::string_view text, std::string_view fileName);

} // namespace moec
