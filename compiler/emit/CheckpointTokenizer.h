// The tokenizer of a checkpoint in the form that the runtime uses.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "compiler/import/ImportCheckpoint.h"
#include "runtime/base/Status.h"

#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace moec {

/// The table (TokenizerTable.h) of the checkpoint's tokenizer.json; empty if it has none.
moert::Result<std::vector<std::byte>> makeTokenizerTable(const Checkpoint &checkpoint);

/// Refuses a checkpoint without tokenizer.json, which `purpose` ("reading texts") needs, with what
/// helps. For callers that would otherwise notice after hours of work.
moert::Status requireTokenizer(const Checkpoint &checkpoint, std::string_view purpose);

/// The same, and refuses a vision model, which reads no text.
moert::Status requireTokenizer(const ImportedModel &model, std::string_view purpose);

/// A line for `warn`, if there is one, where the tokenizer has ids for which the model's embedding
/// has no row: texts with such a token will be refused.
void warnOfTokenizer(const Checkpoint &checkpoint, const moert::Tokenizer &tokenizer,
                     size_t embeddingRows, const std::function<void(std::string_view)> &warn);

/// The same, reading the checkpoint's tokenizer, if it has one.
moert::Status warnOfTokenizer(const Checkpoint &checkpoint, size_t embeddingRows,
                              const std::function<void(std::string_view)> &warn);

} // namespace moec
