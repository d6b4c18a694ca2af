// The prompt that a conversation becomes.
#pragma once

#include "runtime/text/tokenizer/Tokenizer.h"
#include "tools/moert-serve/ChatFormat.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert::serve {

struct ChatPrompt {
  std::string text;
  std::vector<int32_t> tokens;
};

/// Messages of a request as templates expect them.
std::optional<ApiError> readMessages(const Json &messages, Json &read);

/// begin: the beginning of the model's message, which has no reasoning then; absent: none.
std::optional<ApiError> makeChatPrompt(const ChatInput &input, const ChatFormat &format,
                                       const Tokenizer &tokenizer,
                                       std::optional<std::string_view> begin, ChatPrompt &prompt);

/// How many of the first tokens of such a prompt every conversation has that begins with the same
/// system messages and tools.
uint32_t sharedTokensOf(const ChatInput &input, const ChatFormat &format,
                        const Tokenizer &tokenizer, const std::vector<int32_t> &prompt);

} // namespace moert::serve
