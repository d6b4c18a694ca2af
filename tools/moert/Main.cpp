// moert: runs, measures and inspects what a compiled model computes. Command line only; the work is
// in the runtime and in one file per subcommand.
#include "runtime/base/StandardStreams.h"
#include "tools/console/OutputStream.h"
#include "tools/moert/Command.h"
#include "tools/moert/HelpFormatter.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <sstream>

using namespace moert;

static constexpr char kVersion[] = "moert " MOERT_VERSION;

static void buildCommandLine(CLI::App &app, cli::Action &chosen) {
  app.set_version_flag("--version", kVersion, "Print the version and exit");
  app.require_subcommand(1);
  app.formatter(std::make_shared<cli::HelpFormatter>());
  cli::addRunCommand(app, chosen);
  cli::addEvalCommand(app, chosen);
  cli::addBenchCommand(app, chosen);
  cli::addLogitsCommand(app, chosen);
  cli::addTokenizeCommand(app, chosen);
  cli::addProbeCommand(app, chosen);
  for (CLI::App *command : app.get_subcommands({}))
    command->set_version_flag("--version", kVersion, "Print the version and exit");
  app.footer(
      "moert COMMAND --help describes a command.\n"
      "Results go to standard output, everything else to standard error. Exit codes: 0 done, "
      "1 failed,\n2 refused (usage or input), 130 interrupted.");
}

/// What `moert run --frob 2` prints: the reason, and where to look.
static int refuseUsage(const CLI::App &app, const CLI::ParseError &error, const char *firstWord) {
  std::string command = "moert";
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
    cli::printError(strCat("moert: '", firstWord, "' is not a command\nmoert --help lists them"));
    return exitCode(invalidInput(error.what()));
  }
  cli::printError(strCat(command, ": ", reason, "\n", command, " --help lists what it takes"));
  return exitCode(invalidInput(error.what()));
}

/// What --help and --version print.
static int shown(const CLI::App &app, const CLI::ParseError &error) {
  std::ostringstream text;
  app.exit(error, text, text);
  return cli::endProgram("moert", cli::writeOutput(text.str()));
}

int main(int argc, char **argv) {
  occupyStandardStreams();
  // A closed pipe and a file that may not grow are errors of write(), so that a run can still
  // finish its files.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  cli::Action chosen;
  CLI::App app("Runs compiled Mixture-of-Experts models within a memory budget.", "moert");
  try {
    buildCommandLine(app, chosen);
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return shown(app, error);
    return refuseUsage(app, error, argc > 1 ? argv[1] : nullptr);
  }
  return cli::endProgram("moert", chosen());
}
