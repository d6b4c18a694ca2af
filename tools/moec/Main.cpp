// moec: compiles checkpoints, and plans and inspects the artifacts. The command line only; the work
// is in compiler/ and in one function per command.
#include "tools/moec/Command.h"

using namespace moec;

int main(int argc, char **argv) {
  static constexpr moert::cli::AddCommand *kCommands[] = {
      cli::addCompileCommand, cli::addCalibrateCommand, cli::addSelfTextCommand,
      cli::addPlanCommand,    cli::addReplanCommand,    cli::addInspectCommand,
      cli::addVerifyCommand,  cli::addImportCommand,    cli::addEmitCommand};
  return moert::cli::runProgram({"moec", MOEC_VERSION,
                                 "Compiles Mixture-of-Experts checkpoints for a memory budget.",
                                 "moec compile checkpoint/ -o model.moe --memory 6GiB"},
                                kCommands, argc, argv);
}
