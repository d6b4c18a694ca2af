// The prompt that a conversation becomes.
#pragma once

#include "runtime/tokenizer/Tokenizer.h"
#include "tools/moert-serve/ChatFormat.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace moert::serve {

/// messages: an array, as a client sent it. tools: the same, or null. begin: the beginning of the
/// model's message.
std::optional<ApiError> makeChatPrompt(const Json &messages, const Json &tools,
                                       const ChatFormat &format, const Tokenizer &tokenizer,
                                       std::string_view begin, std::vector<int32_t> &prompt);

/// How many of the first tokens of such a prompt every conversation has that begins with the same
/// system messages and tools.
uint32_t sharedTokensOf(const Json &messages, const Json &tools, const ChatFormat &format,
                        const Tokenizer &tokenizer, const std::vector<int32_t> &prompt);

} // namespace moert::serve
