#include "tools/console/CommandLine.h"

#include "runtime/base/FloatMode.h"
#include "runtime/base/StandardStreams.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/OutputStream.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstring>
#include <memory>
#include <sstream>

namespace moert::cli {

static std::string reasonOf(const CLI::App &app, const CLI::ParseError &error) {
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError))
    return error.what();
  std::string reason = "not expected:"; // The exception's own text lists them in reverse order.
  for (const std::string &extra : app.remaining(true))
    reason += " " + extra;
  return reason;
}

static std::string refusalOf(const CLI::App &app, const CLI::ParseError &error,
                             const char *firstWord) {
  std::string command = app.get_name();
  if (!firstWord)
    return strCat(command, ": no command, expected one\n", command, " --help lists them");
  const std::string option(firstWord, std::strcspn(firstWord, "="));
  if (option.starts_with('-') && !app.get_option_no_throw(option))
    return strCat(command, ": no option ", option, " before the command, expected ", command,
                  " COMMAND with its options after it\n", command, " --help lists the commands");
  if (app.get_subcommands().empty() && firstWord[0] != '-')
    return strCat(command, ": '", firstWord, "' is not a command\n", command, " --help lists them");
  for (const CLI::App *parsed : app.get_subcommands())
    command += " " + parsed->get_name();
  return strCat(command, ": ", reasonOf(app, error), "\n", command, " --help lists its options");
}

/// Prints the output of --help or --version, or why the command line is refused. firstWord: the
/// first argument; null if there is none.
static int endUnparsed(const CLI::App &app, const CLI::ParseError &error, const char *firstWord) {
  if (error.get_exit_code() != 0) {
    printError(refusalOf(app, error, firstWord));
    return exitCode(invalidInput(error.what()));
  }
  std::ostringstream text;
  app.exit(error, text, text);
  return endProgram(app.get_name(), writeOutput(text.str()));
}

static void buildCommandLine(CLI::App &app, const ProgramInfo &program,
                             std::span<AddCommand *const> commands, Action &chosen) {
  const std::string version = program.name + " " + program.version;
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>(outputWidth()));
  for (AddCommand *add : commands)
    add(app, chosen);
  app.set_version_flag("--version", version, "Print the version and exit");
  for (CLI::App *command : app.get_subcommands({}))
    command->set_version_flag("--version", version, "Print the version and exit");
  app.footer(strCat(program.name, " COMMAND --help describes a command.\n",
                    "Results go to standard output, everything else to standard error. Exit codes: "
                    "0 done, 1 failed, 2 refused (command line or input), 130 interrupted.\n",
                    exampleFooter(program.example)));
}

int runProgram(const ProgramInfo &program, std::span<AddCommand *const> commands, int argc,
               char **argv) {
  const DefaultFloatMode mode; // Threads that commands start inherit it.
  occupyStandardStreams();
  // A closed pipe and a file size limit become errors of write(), so that a command can still
  // finish or remove its files.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  Action chosen;
  CLI::App app(program.description, program.name);
  try {
    buildCommandLine(app, program, commands, chosen);
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return endUnparsed(app, error, argc > 1 ? argv[1] : nullptr);
  }
  return endProgram(program.name, chosen());
}

} // namespace moert::cli
