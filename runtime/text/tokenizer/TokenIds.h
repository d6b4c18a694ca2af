// Token ids as text: whole numbers separated by white space.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Refuses anything but whole numbers below `vocabularySize` and names the place. `what` is the
/// file that the text came from.
Result<std::vector<int32_t>> parseTokenIds(std::string_view text, uint64_t vocabularySize,
                                           std::string_view what);

/// Appends "12 7 99", without a leading or trailing space.
void appendTokenIds(std::span<const int32_t> ids, std::string &out);

} // namespace moert
