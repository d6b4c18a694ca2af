// moec: compiles checkpoints and looks at what came of it. Command line only; the work is in
// compiler/ and in one function per subcommand.
#include "runtime/base/StandardStreams.h"
#include "tools/console/OutputStream.h"
#include "tools/console/Unparsed.h"
#include "tools/moec/Command.h"

#include <CLI/CLI.hpp>

#include <csignal>

using namespace moert;

static constexpr char kVersion[] = "moec " MOEC_VERSION;

static void buildCommandLine(CLI::App &app, moec::cli::Action &chosen) {
  app.require_subcommand(1);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  moec::cli::addCompileCommand(app, chosen);
  moec::cli::addCalibrateCommand(app, chosen);
  moec::cli::addSelfTextCommand(app, chosen);
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
    return cli::endUnparsed(app, error, argc > 1 ? argv[1] : nullptr);
  }
  return cli::endProgram("moec", chosen());
}
