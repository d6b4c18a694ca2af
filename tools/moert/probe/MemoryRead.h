// Reading memory for the sake of its time.
#pragma once

#include <cstddef>
#include <span>

namespace moert::probe {

/// Loads every byte; the compiler may not leave it out.
void readThrough(std::span<const std::byte> memory);

} // namespace moert::probe
