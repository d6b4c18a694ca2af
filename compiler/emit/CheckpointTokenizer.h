// The tokenizer of a checkpoint in the form that the runtime uses.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <vector>

namespace moec {

/// The table (TokenizerTable.h) of the checkpoint's tokenizer.json; empty if it has none.
moert::Result<std::vector<std::byte>> makeTokenizerTable(const Checkpoint &checkpoint);

} // namespace moec
