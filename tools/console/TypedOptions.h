// Command lines as hands type them: options by the names that other programs give them, the command
// `help`, and what to say about a word that no command takes. Everything here comes from one table,
// which `help options` prints.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace moert::cli {

/// The words after the program's name, with our own names of options and commands. A model given by
/// an option becomes the command's first argument. Refused are no command, an unknown one, and an
/// option that the command does not have: the message names the nearest one, or what is done here
/// instead of what the option does in another program.
Result<std::vector<std::string>> ownWords(const CLI::App &program, std::vector<std::string> typed);

/// Whether the words ask for `help options`.
bool asksForOptions(const std::vector<std::string> &typed);

/// The page of `help options`: all names that are taken, and options of other programs with what is
/// done here instead.
std::string typedOptionsPage(size_t width);

} // namespace moert::cli
