// The length limit of a run, from prompt, tokens to generate, --context and the model's positions.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace moert::cli {

constexpr uint32_t kDefaultTokens = 128;
/// The context of a command that does not know how long its text will be.
constexpr uint32_t kDefaultContext = 4096;

/// As given on the command line.
struct LengthRequest {
  std::optional<uint32_t> tokens;  // -n, perhaps kNoLimit.
  std::optional<uint32_t> context; // --context
};

struct RunLength {
  uint32_t maxTokens = 0;
  uint32_t contextTokens = 0;
  bool isContextBound = false; // The default number of tokens was cut to what the context has left,
                               // or there is no limit.
};

/// A requested number of tokens is granted or refused; only the default shrinks to fit the context.
/// Without a limit, the context is the default one, or the model's positions if the prompt is too
/// long for it.
Result<RunLength> runLength(const LengthRequest &request, uint64_t promptTokens,
                            uint32_t modelPositions);

/// Refuses early a file that could not be written at the end or that would replace one of the
/// command's inputs. Leaves no file behind.
Status checkWritable(const std::string &path, std::initializer_list<std::string> inputs);

} // namespace moert::cli
