// How long a run may become: prompt, tokens to generate, context and the model's positions
// together.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace moert::cli {

constexpr uint32_t kDefaultTokens = 128;

/// As the command line gave it.
struct LengthRequest {
  std::optional<uint32_t> tokens;  // -n
  std::optional<uint32_t> context; // --context
};

struct RunLength {
  uint32_t maxTokens = 0;
  uint32_t contextTokens = 0;
  bool isContextBound = false; // Fewer than kDefaultTokens, since the context ends there.
};

/// A number of tokens that was asked for is given or refused; the default gives way to the context.
Result<RunLength> runLength(const LengthRequest &request, uint64_t promptTokens,
                            uint32_t modelPositions);

/// Refuses early a file that could not be written in the end or would replace one of those that the
/// command reads; leaves nothing behind.
Status checkWritable(const std::string &path, std::initializer_list<std::string> inputs);

} // namespace moert::cli
