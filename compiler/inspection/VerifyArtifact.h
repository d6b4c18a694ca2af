// `moec verify`: checks the file byte by byte, and that a run could use every part of it. The
// format's own check (runtime/format/Verify.h) treats the tokenizer's table, activation paths and
// trace as opaque bytes.
#pragma once

#include "runtime/format/Reader.h"

#include <cstdint>
#include <functional>

namespace moec {

/// verifyArtifact(), then the tokenizer as moert loads it, activation paths and trace. Messages
/// begin with the source's name.
moert::Status
verifyWholeArtifact(const moert::ByteSource &source,
                    const std::function<void(uint64_t done, uint64_t total)> &progress = {});

} // namespace moec
