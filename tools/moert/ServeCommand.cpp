// moert serve: starts moert-serve, the program beside this one, with the same arguments.
#include "tools/moert/Command.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <climits>
#include <unistd.h>

namespace moert::cli {

static Status startServer(std::vector<std::string> arguments) {
  char self[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  if (length < 0 || static_cast<size_t>(length) >= sizeof self)
    return systemError(errno, "cannot find the folder of this program");
  const std::string path = std::string(self, static_cast<size_t>(length)) + "-serve";
  std::vector<char *> words;
  for (std::string &argument : arguments)
    words.push_back(argument.data());
  words.push_back(nullptr);
  ::execv(path.c_str(), words.data());
  return openError(errno, "cannot start " + path + ", which serves models");
}

void addServeCommand(CLI::App &app, Action &chosen) {
  CLI::App *command = app.add_subcommand("serve", "Answer requests of OpenAI's HTTP API");
  command->prefix_command(); // All arguments are the server's.
  command->set_help_flag();
  command->callback([command, &chosen] {
    std::vector<std::string> arguments = command->remaining();
    arguments.insert(arguments.begin(), {"moert", "serve"});
    chosen = [arguments] { return startServer(arguments); };
  });
}

} // namespace moert::cli
