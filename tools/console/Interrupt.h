// Ctrl-C: the first one asks the command to end between two steps, with a partial result or in a
// state that can be resumed; the second one kills the process.
#pragma once

#include <atomic>

namespace moert::cli {

/// Makes SIGINT and SIGTERM set the returned flag; one that arrives at least half a second after
/// the first has its default effect. SIGHUP sets the flag too, unless it is ignored. Before this
/// call all of them kill the process, which is right while a model loads: nothing has been written
/// yet.
const std::atomic<bool> &catchInterrupts();

} // namespace moert::cli
