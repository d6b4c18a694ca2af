// Unbuffered standard output, so that streamed text appears at once; and the only access to
// standard error.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <string_view>

namespace moert::cli {

/// Writes all of it. If the reader has closed the pipe (EPIPE), isClosedOutput() is true for the
/// error.
Status writeOutput(std::string_view text);

/// Whether a command failed because its output was closed; such a command ends without a message.
bool isClosedOutput(const Status &status);

bool isOutputTerminal();
bool isErrorTerminal();

/// Characters per line of text: the terminal's width, limited to what is easy to read; 80 if
/// standard output is not a terminal.
size_t outputWidth();

/// Writes to standard error; ignores errors, since they cannot be reported.
void writeError(std::string_view text);

/// Writes printable(message) as one line.
void printError(std::string_view message);

/// Prints the error after the program's name and returns its exit code. A program whose output was
/// closed ends without a message, as if by SIGPIPE.
int endProgram(std::string_view program, const Status &status);

} // namespace moert::cli
