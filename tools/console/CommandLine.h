// The command-line handling that moec and moert share: commands, help, version, refused command
// lines, exit codes.
#pragma once

#include "runtime/base/Status.h"

#include <functional>
#include <span>
#include <string>

namespace CLI {
class App;
}

namespace moert::cli {

/// The chosen command. An error's message goes to standard error, and its code determines the exit
/// code.
using Action = std::function<Status()>;

/// Adds a command to the program. `chosen` is set if the command line selects the command.
using AddCommand = void(CLI::App &app, Action &chosen);

struct ProgramInfo {
  std::string name;        // As typed: "moec".
  std::string version;     // "0.1.0"
  std::string description; // The first line of --help.
  std::string example;     // A command line for --help.
};

/// The body of main(): parses the command line, runs its command and returns the exit code.
int runProgram(const ProgramInfo &program, std::span<AddCommand *const> commands, int argc,
               char **argv);

} // namespace moert::cli
