// The prompt that a conversation becomes.
#pragma once

#include "runtime/tokenizer/Tokenizer.h"
#include "tools/moert-serve/ApiError.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moert::serve {

struct ChatPrompt {
  std::vector<int32_t> tokens;
  std::vector<std::string> stopTexts; // Each ends the model's message.
};

/// The messages in ChatML, the format of the Qwen family, up to where the model's message begins.
/// messages: an array, as a client sent it.
std::optional<ApiError> makeChatPrompt(const Json &messages, const Tokenizer &tokenizer,
                                       ChatPrompt &prompt);

} // namespace moert::serve
