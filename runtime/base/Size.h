// Sizes as people write them: `512MiB`, `6GiB`, `1.5GB`, or a percentage, `25%`. One grammar for
// every program and option.
//
//   SIZE   = NUMBER UNIT | NUMBER "%"
//   NUMBER = digits, optionally "." and up to six digits
//   UNIT   = B | KiB | MiB | GiB | TiB | K | M | G | T (powers of 1024)
//          | KB | MB | GB | TB (powers of 1000), in upper or lower case
//
// A letter alone is a power of 1024, as for the shell's ulimit, systemd and docker.
// A number without a unit is refused: "6" has meant bytes to one program and gigabytes to another.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// Either a number of bytes or, if fraction is set, a fraction of a total that the caller has.
struct Size {
  uint64_t bytes = 0;             // Above 0 if fraction is not set.
  std::optional<double> fraction; // 0.25 for "25%"; above 0, at most 1.
};

Result<Size> parseSize(std::string_view text);

/// For people, at most four digits: "812 B", "4.00 KiB", "1.50 GiB", "1023 MiB".
std::string formatBytes(uint64_t bytes);

/// For people who may have to type the exact number: "1610612737 bytes (1.50 GiB)".
std::string formatExactBytes(uint64_t bytes);

} // namespace moert
