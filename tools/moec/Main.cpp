// moec: compiles checkpoints, and plans and inspects the artifacts. Only the command line is here;
// the work is done in compiler/, and each command has a file of its own.
#include "tools/moec/Command.h"

#include <malloc.h>

using namespace moec;

int main(int argc, char **argv) {
  // One heap for all threads. With a heap each, what threads had allocated and freed by their end
  // stays with the process, malloc_trim() or not, and how much that is depends on their timing: the
  // smallest budget that a calibration named varied by 1.5 MB. Threads allocate whole matrices,
  // seldom: times were the same.
  ::mallopt(M_ARENA_MAX, 1);
  static constexpr moert::cli::AddCommand *kCommands[] = {
      cli::addCompileCommand, cli::addCalibrateCommand, cli::addSelfTextCommand,
      cli::addPlanCommand,    cli::addReplanCommand,    cli::addReportCommand,
      cli::addInspectCommand, cli::addVerifyCommand,    cli::addImportCommand,
      cli::addEmitCommand};
  return moert::cli::runProgram({"moec", MOEC_VERSION,
                                 "Compiles Mixture-of-Experts checkpoints for a memory budget.",
                                 "moec compile checkpoint/ -o model.moe --memory 6GiB"},
                                kCommands, argc, argv);
}
