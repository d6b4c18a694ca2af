// Ctrl-C: the first one asks a compile to stop so that it can be resumed; the second one kills it.
#pragma once

#include <atomic>

namespace moec::cli {

/// From now on SIGINT and SIGTERM set the flag, each once; a second signal of the same kind has its
/// usual effect.
const std::atomic<bool> &catchInterrupts();

} // namespace moec::cli
