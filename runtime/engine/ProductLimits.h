#pragma once

#include <cstddef>

namespace moert {

/// Products of one buffer that are computed together, at most.
constexpr size_t kMostTogether = 4;

} // namespace moert
