// moec: compiles checkpoints and looks at what came of it. Command line only; the work is in
// compiler/ and in one function per subcommand.
#include "runtime/base/StandardStreams.h"
#include "tools/console/OutputStream.h"
#include "tools/moec/Command.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <sstream>

using namespace moert;

static constexpr char kVersion[] = "moec " MOEC_VERSION;

static void buildCommandLine(CLI::App &app, moec::cli::Action &chosen) {
  app.require_subcommand(1);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  moec::cli::addCompileCommand(app, chosen);
  moec::cli::addCalibrateCommand(app, chosen);
  moec::cli::addImportCommand(app, chosen);
  moec::cli::addEmitCommand(app, chosen);
  moec::cli::addPlanCommand(app, chosen);
  moec::cli::addReplanCommand(app, chosen);
  moec::cli::addInspectCommand(app, chosen);
  moec::cli::addVerifyCommand(app, chosen);
  app.set_version_flag("--version", kVersion, "Print the version and exit");
  app.get_formatter()->column_width(24);
  for (CLI::App *command : app.get_subcommands({})) {
    command->set_version_flag("--version", kVersion, "Print the version and exit");
    command->get_formatter()->column_width(44);
  }
  app.footer(
      "moec COMMAND --help describes a command.\n"
      "Results go to standard output, everything else to standard error. Exit codes: 0 done, "
      "1 failed,\n2 refused (usage or input), 130 interrupted.");
}

// The reason, and where to look.
static int refuseUsage(const CLI::App &app, const CLI::ParseError &error, const char *firstWord) {
  std::string command = "moec";
  for (const CLI::App *parsed : app.get_subcommands())
    command += " " + parsed->get_name();
  std::string reason = error.what();
  if (error.get_exit_code() ==
      static_cast<int>(CLI::ExitCodes::ExtrasError)) { // Whose text has them in reverse.
    reason = "not expected:";
    for (const std::string &extra : app.remaining(true))
      reason += " " + extra;
  }
  if (app.get_subcommands().empty() && firstWord && firstWord[0] != '-') {
    cli::printError(strCat("moec: '", firstWord, "' is not a command\nmoec --help lists them"));
    return exitCode(invalidInput(error.what()));
  }
  cli::printError(strCat(command, ": ", reason, "\n", command, " --help lists what it takes"));
  return exitCode(invalidInput(error.what()));
}

/// What --help and --version print.
static int shown(const CLI::App &app, const CLI::ParseError &error) {
  std::ostringstream text;
  app.exit(error, text, text);
  return cli::endProgram("moec", cli::writeOutput(text.str()));
}

int main(int argc, char **argv) {
  occupyStandardStreams();
  // A closed pipe and a file that may not grow are errors of write(), so that a compile can still
  // tidy up.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  moec::cli::Action chosen;
  CLI::App app("Compiles Mixture-of-Experts checkpoints for a memory budget.", "moec");
  try {
    buildCommandLine(app, chosen);
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return shown(app, error);
    return refuseUsage(app, error, argv[1]);
  }
  return cli::endProgram("moec", chosen());
}
