#include "tools/console/Unparsed.h"

#include "runtime/base/Status.h"
#include "tools/console/OutputStream.h"

#include <sstream>
#include <string>

namespace moert::cli {

static std::string reasonOf(const CLI::App &app, const CLI::ParseError &error) {
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError))
    return error.what();
  std::string reason = "not expected:"; // The error's own text has them in reverse.
  for (const std::string &extra : app.remaining(true))
    reason += " " + extra;
  return reason;
}

static std::string refusalOf(const CLI::App &app, const CLI::ParseError &error,
                             const char *firstWord) {
  std::string command = app.get_name();
  if (app.get_subcommands().empty() && firstWord && firstWord[0] != '-')
    return strCat(command, ": '", firstWord, "' is not a command\n", command, " --help lists them");
  for (const CLI::App *parsed : app.get_subcommands())
    command += " " + parsed->get_name();
  return strCat(command, ": ", reasonOf(app, error), "\n", command, " --help lists what it takes");
}

int endUnparsed(const CLI::App &app, const CLI::ParseError &error, const char *firstWord) {
  if (error.get_exit_code() != 0) {
    printError(refusalOf(app, error, firstWord));
    return exitCode(invalidInput(error.what()));
  }
  std::ostringstream text;
  app.exit(error, text, text);
  return endProgram(app.get_name(), writeOutput(text.str()));
}

} // namespace moert::cli
