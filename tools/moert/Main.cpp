// moert: runs and measures compiled models. Only the command line is here; the work is done in
// runtime/, and each command has a file of its own.
#include "tools/moert/Command.h"

using namespace moert;

int main(int argc, char **argv) {
  static constexpr cli::AddCommand *kCommands[] = {
      cli::addRunCommand,      cli::addChatCommand,   cli::addEvalCommand,
      cli::addBenchCommand,    cli::addLogitsCommand, cli::addTokenizeCommand,
      cli::addClassifyCommand, cli::addServeCommand,  cli::addProbeCommand};
  return cli::runProgram({"moert", MOERT_VERSION,
                          "Runs compiled Mixture-of-Experts models within a memory budget.",
                          "moert run model.moe -p \"The old man\" --memory 6GiB"},
                         kCommands, argc, argv);
}
