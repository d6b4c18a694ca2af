// Tokenizers that are published as ranks of byte strings, as texts of tokenizer.json: Kimi's
// tiktoken.model and Mistral's tekken.json. Two neighbours merge where their join has a rank, the
// lowest rank first; a piece that has a rank itself is one token. Error messages begin with
// fileName.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>

namespace moert {

/// Splits texts. Source: moonshotai/Kimi-K2-Instruct, tokenization_kimi.py.
inline constexpr std::string_view kKimiPattern =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// tiktoken.model: lines of a token in base64 and its rank. configText is tokenizer_config.json,
/// whose added_tokens_decoder names some of the 256 tokens after the last rank.
Result<std::string> makeKimiTokenizer(std::string_view ranksText, std::string_view configText,
                                      std::string_view fileName);

/// tekken.json, whose special tokens have the first ids.
Result<std::string> makeTekkenTokenizer(std::string_view text, std::string_view fileName);

} // namespace moert
