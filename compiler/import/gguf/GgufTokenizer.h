// The tokenizer in a GGUF file's keys, in the form of the published files, whose readers then make
// the artifact's table and chat templates of it. Sources: llama.cpp, llama-vocab.cpp; the splits
// are those of the published tokenizer.json files that each name stands for.
#pragma once

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

namespace moec {

/// tokenizer.json. An error for a kind of tokenizer that is not read, and without one: what was
/// found, as a part of a message.
moert::Result<nlohmann::json> makeGgufTokenizer(const nlohmann::json &keys);

/// tokenizer_config.json: the special tokens' texts and the chat templates.
nlohmann::json makeGgufTokenizerConfig(const nlohmann::json &keys);

} // namespace moec
