// Parses JSON within limits, in a time that grows with the text, whatever it is: the library's own
// parser compares each member's name with those of all members before it.
#pragma once

#include "tools/moert-serve/ApiError.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moert::serve {

/// Limits of a request's JSON, apart from its bytes.
struct JsonLimits {
  uint32_t depth = 64;
  uint32_t values = 200'000;
  /// Most members of one object: they are searched one after the other for each name that a call
  /// or a schema has.
  uint32_t members = 8192;
};

struct JsonFault {
  std::string limit = {}; // What is beyond a limit; empty: it is not valid JSON.
  size_t bytes = 0;       // Up to the fault, the byte with it included.
};

/// Reads no further than the first fault. A name that an object has twice keeps its first place and
/// has its last value, as with the library.
std::optional<JsonFault> parseJson(std::string_view text, const JsonLimits &limits, Json &parsed);

} // namespace moert::serve
