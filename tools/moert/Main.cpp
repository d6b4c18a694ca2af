// moert: runs, measures and inspects what a compiled model computes. Command line only; the work is
// in the runtime and in one file per subcommand.
#include "runtime/base/StandardStreams.h"
#include "tools/console/OutputStream.h"
#include "tools/console/Unparsed.h"
#include "tools/moert/Command.h"
#include "tools/moert/HelpFormatter.h"

#include <CLI/CLI.hpp>

#include <csignal>

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
    return cli::endUnparsed(app, error, argc > 1 ? argv[1] : nullptr);
  }
  return cli::endProgram("moert", chosen());
}
