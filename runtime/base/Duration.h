// Durations for people.
#pragma once

#include <cstdint>
#include <string>

namespace moert {

/// "45 s", "3 min 20 s", "2 h 5 min".
std::string formatDuration(uint64_t seconds);

} // namespace moert
