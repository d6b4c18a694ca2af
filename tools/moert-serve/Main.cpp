// moert-serve: the program behind `moert serve`, which starts it. A program of its own, since its
// HTTP library would make moert larger than a runtime that is copied to devices should be.
#include "tools/moert-serve/ServeCommand.h"

int main(int argc, char **argv) {
  static constexpr moert::cli::AddCommand *kCommands[] = {moert::serve::addServeCommand};
  return moert::cli::runProgram({"moert", MOERT_VERSION, "Serves compiled models over HTTP.",
                                 "moert serve model.moe --memory 6GiB"},
                                kCommands, argc, argv);
}
