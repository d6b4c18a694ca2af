// The options of moert run for models that compute an input as a whole: an encoder's, in a
// language, or a prefix whose tokens attend to each other.
#pragma once

#include "runtime/engine/Engine.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace moert::cli {

struct InputFlags {
  std::optional<std::string> sourceLanguage, targetLanguage; // Tokens, or their numbers.
  uint32_t prefixTokens = 0;
};

/// Adds --source-lang, --target-lang and --prefix.
void addInputFlags(CLI::App &command, InputFlags &flags);

/// Refuses flags that the model does not take, and a profile of a model that takes an input.
Status checkInputFlags(const InputFlags &flags, const Model &model, bool hasProfile);

/// The input of the model's encoder, empty without one: it takes the prompt, which becomes the
/// tokens that the decoder begins with, the model's own and the target language. areIds: the prompt
/// was given as ids.
Result<std::vector<int32_t>> takeInput(const InputFlags &flags, const Model &model, bool areIds,
                                       std::vector<int32_t> &prompt);

/// The special tokens <extra_id_0>, <extra_id_1>, ... that T5's tokenizer has, which separate the
/// spans of an answer and so are text; none without an encoder.
std::vector<int32_t> spanTokens(const Model &model);

/// Computes the input of the encoder, and the prompt's tokens but the last, each by itself, as they
/// are when they are generated. Without an encoder it only sets the prefix.
Status computeInput(const InputFlags &flags, std::span<const int32_t> input,
                    std::span<const int32_t> prompt, Engine &engine, Session &session);

} // namespace moert::cli
