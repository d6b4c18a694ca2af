// Command lines that start no command: those that ask for help or a version, and those that cannot
// be meant.
#pragma once

#include <CLI/CLI.hpp>

namespace moert::cli {

/// Prints what --help and --version ask for, or what is wrong and where to look; the program's exit
/// code. firstWord: the first argument; null where there is none.
int endUnparsed(const CLI::App &app, const CLI::ParseError &error, const char *firstWord);

} // namespace moert::cli
