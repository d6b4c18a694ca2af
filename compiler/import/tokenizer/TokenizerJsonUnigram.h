// Reads a Unigram model of tokenizer.json; for TokenizerJson.cpp only.
#pragma once

#include "compiler/import/tokenizer/JsonNode.h"
#include "runtime/text/tokenizer/TokenizerModel.h"

#include <string_view>
#include <unordered_map>

namespace moert {

/// Ids by token; the tokens point into the document.
using TokenIds = std::unordered_map<std::string_view, int32_t>;

/// Fills the tokens, the scores and the model's settings.
Result<TokenIds> parseUnigram(const JsonNode &node, TokenizerModel &model);

/// The number that the reference package reads where a file has this one. Its parser rounds twice,
/// in the conversion of the digits and in the division by a power of ten, so that the last bit can
/// differ. That decides between ways to write a text whose exact sums are equal, such as a run of
/// the same character. Source: serde_json, src/de.rs, f64_from_parts.
double asReferenceReads(double value);

} // namespace moert
