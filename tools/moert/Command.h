// What the subcommands of moert have in common. Each one is a file: it adds its options to the
// command line and, when it was the one asked for, sets what main() then runs.
#pragma once

#include "runtime/base/Status.h"

#include <functional>

namespace CLI {
class App;
}

namespace moert::cli {

/// The chosen command. An error's message goes to stderr and its code decides the exit code.
using Action = std::function<Status()>;

void addRunCommand(CLI::App &app, Action &chosen);
void addLogitsCommand(CLI::App &app, Action &chosen);
void addEvalCommand(CLI::App &app, Action &chosen);
void addBenchCommand(CLI::App &app, Action &chosen);
void addProbeCommand(CLI::App &app, Action &chosen);
void addTokenizeCommand(CLI::App &app, Action &chosen);

} // namespace moert::cli
