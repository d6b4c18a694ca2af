// Ctrl-C: the first one asks a command to end between two steps, with what it has or so that it can
// be resumed; the second one kills it.
#pragma once

#include <atomic>

namespace moert::cli {

/// From now on SIGINT and SIGTERM set the flag; one that comes half a second behind the first or
/// later has its usual effect. SIGHUP sets it too, where it is not ignored. Before this call all
/// simply kill, which is right while a model is loading: nothing has been written yet.
const std::atomic<bool> &catchInterrupts();

} // namespace moert::cli
