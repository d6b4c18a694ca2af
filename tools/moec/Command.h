// What the subcommands of moec have in common. Each one is a file: it adds its options to the
// command line and, when it was the one asked for, sets what main() then runs.
#pragma once

#include "runtime/base/Status.h"

#include <functional>

namespace CLI {
class App;
}

namespace moec::cli {

/// The chosen command. An error's message goes to stderr and its code decides the exit code.
using Action = std::function<moert::Status()>;

void addCompileCommand(CLI::App &app, Action &chosen);
void addCalibrateCommand(CLI::App &app, Action &chosen);
void addSelfTextCommand(CLI::App &app, Action &chosen);
void addImportCommand(CLI::App &app, Action &chosen);
void addEmitCommand(CLI::App &app, Action &chosen);
void addPlanCommand(CLI::App &app, Action &chosen);
void addReplanCommand(CLI::App &app, Action &chosen);
void addInspectCommand(CLI::App &app, Action &chosen);
void addVerifyCommand(CLI::App &app, Action &chosen);

} // namespace moec::cli
