// Lines of facts at a terminal's width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moert::cli {

/// Characters per line of a file that is a terminal; 0 if it is none.
size_t terminalColumns(int file);

/// Breaks lines that are longer than `columns` characters at spaces. What continues a line of two
/// columns, which two spaces divide, is indented as the second one. 0 columns: any length.
std::string wrappedLines(std::string_view text, size_t columns);

/// Writes to standard error, wrapped where it is a terminal.
void writeErrorLines(std::string_view text);

} // namespace moert::cli
