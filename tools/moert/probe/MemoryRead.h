// Reads memory to measure its bandwidth.
#pragma once

#include <cstddef>
#include <span>

namespace moert::probe {

/// Loads every byte; the compiler cannot remove the loads.
void readThrough(std::span<const std::byte> memory);

} // namespace moert::probe
