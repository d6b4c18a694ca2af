// Requests of OpenAI's API to generate text: read from JSON, checked, and turned into sequences.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/serving/Answer.h"
#include "runtime/text/grammar/TokenConstraint.h"
#include "runtime/text/sampling/SamplingOptions.h"
#include "tools/moert-serve/ChatFormat.h"
#include "tools/moert-serve/Fields.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert::serve {

/// What the requests are read for.
struct ServedModelInfo {
  const Model *model = nullptr; // Has a tokenizer.
  std::string name;             // The API's "model".
  uint32_t contextTokens = 0;
  uint32_t mostSequences = 1;             // In one request.
  const TokenTexts *tokenTexts = nullptr; // For formats.
  const TokenTexts *callTexts = nullptr;  // For calls: with their special tokens.
  const ChatFormat *chatFormat = nullptr;
  SamplingOptions sampling = {}; // For a request that states nothing.
  /// A seed for a request without one.
  std::function<uint64_t()> drawSeed;
  bool hasStates = false; // The model's sequences do: see AnswerRequest::sharedTokens.
};

/// A request that can be submitted: sequence i is choice i of the answer.
struct ApiCall {
  bool isChat = false;
  std::vector<AnswerRequest> sequences;
  uint32_t choicesPerPrompt = 1; // "n"
  bool isStreamed = false;
  bool streamsUsage = false;        // A last chunk has the usage.
  bool echoes = false;              // Texts begin with their prompt.
  bool forcesTool = false;          // The answer is a call.
  std::string_view callBegin = {};  // Its beginning, which the prompt has.
  bool allowsCalls = true;          // More than one.
  bool givesScores = false;         // "logprobs"
  uint32_t topScores = 0;           // Best tokens listed for each token.
  std::vector<std::string> prompts; // As text, with echoes: entry i is choice i's.
  /// How answers are read; null: all text is the answer, as of a completion or a format.
  const AnswerFormat *answers = nullptr;
  const CallForm *toolCalls = nullptr; // Calls that are read; null for none.
  ToolTypes toolTypes = {};
  /// Keywords of the schemas that answers may not fit; see SchemaGrammar.
  std::vector<std::string> unenforced = {};
  std::string promptEnd = {};        // Which may have begun the model's reasoning.
  std::optional<Json> response = {}; // Of /v1/responses: what of the request it repeats.
};

/// What the checkpoint states, and otherwise the API's defaults: temperature 1, nothing cut.
SamplingOptions defaultSampling(const std::optional<SamplingDefaults> &stated);

/// Reads the body of /v1/chat/completions or /v1/completions.
std::optional<ApiError> readChatCall(const Json &body, const ServedModelInfo &info, ApiCall &call);
std::optional<ApiError> readCompletionCall(const Json &body, const ServedModelInfo &info,
                                           ApiCall &call);

} // namespace moert::serve
