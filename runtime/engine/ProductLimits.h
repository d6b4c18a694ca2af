#pragma once

#include <cstddef>

namespace moert {

/// The maximum number of products of one buffer that are computed together.
constexpr size_t kMostTogether = 4;

} // namespace moert
