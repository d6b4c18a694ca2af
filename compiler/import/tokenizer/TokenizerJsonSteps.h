// The steps around the model in a tokenizer.json: normalizer, pre-tokenizer, post-processor,
// decoder.
#pragma once

#include "compiler/import/tokenizer/JsonNode.h"
#include "runtime/text/tokenizer/TokenizerModel.h"

namespace moert {

/// Reads the four members of root into pipeline. Ids must be below idCount.
Status parseSteps(const JsonNode &root, size_t idCount, TokenizerPipeline &pipeline);

} // namespace moert
