// Standard output, unbuffered: streamed text is there when it was generated. And the one way to
// standard error.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <string_view>

namespace moert::cli {

/// Writes all of it. When nobody reads any more (EPIPE), the error is one that isClosedOutput()
/// knows.
Status writeOutput(std::string_view text);

/// Whether a command ended because its output was closed: it ends quietly.
bool isClosedOutput(const Status &status);

bool isOutputTerminal();
bool isErrorTerminal();

/// Characters of a line of text: the terminal's width within limits that are easy to read, 80 where
/// standard output is no terminal.
size_t outputWidth();

/// Standard error; where that is closed there is nowhere to complain.
void writeError(std::string_view text);

/// A line of its own, printable().
void printError(std::string_view message);

/// Tells what went wrong, in the program's name, and gives its exit code. A program whose output
/// was closed ends quietly, as if by SIGPIPE.
int endProgram(std::string_view program, const Status &status);

} // namespace moert::cli
