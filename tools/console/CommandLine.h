// What the command lines of moec and moert have in common: commands that print help or a version,
// command lines that are refused, exit codes.
#pragma once

#include "runtime/base/Status.h"

#include <functional>
#include <span>
#include <string>

namespace CLI {
class App;
}

namespace moert::cli {

/// The chosen command. An error's message goes to stderr and its code decides the exit code.
using Action = std::function<Status()>;

/// Adds a command to the program. When a command line has chosen it, `chosen` is set.
using AddCommand = void(CLI::App &app, Action &chosen);

struct ProgramInfo {
  std::string name;        // As it is called: "moec".
  std::string version;     // "0.1.0"
  std::string description; // The first line of --help.
  std::string example;     // A command line.
};

/// The whole main(): parses the command line and runs its command. The program's exit code.
int runProgram(const ProgramInfo &program, std::span<AddCommand *const> commands, int argc,
               char **argv);

} // namespace moert::cli
