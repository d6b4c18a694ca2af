// The layout of --help, wrapped to the terminal's width: arguments and options in groups, each text
// in one column, then notes and an example.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>

namespace moert::cli {

/// Owned by the App, which shares it with its commands.
///
/// A footer is a list of paragraphs, one per line. Paragraphs that begin with two spaces are
/// command lines: long ones are continued with backslashes.
class HelpFormatter : public CLI::FormatterBase {
public:
  explicit HelpFormatter(size_t width) : lineWidth(width) {}

  std::string make_help(const CLI::App *app, std::string name,
                        CLI::AppFormatMode mode) const override;

private:
  std::string optionGroups(const CLI::App &app) const;
  std::string optionEntry(const CLI::Option &option) const;

  size_t lineWidth;
};

/// Wraps a text to lines of `width` characters, each after `indent` spaces. A longer word gets a
/// line of its own.
std::string wrapped(const std::string &text, size_t width, size_t indent = 0);

/// "  NAME       TEXT", with the text wrapped in its own column. A name that reaches that column,
/// and any name if the width is small, gets a line of its own.
std::string helpEntry(const std::string &name, const std::string &text, size_t width);

/// The end of a command's footer: the heading "Example" and the command line.
std::string exampleFooter(const std::string &commandLine);

} // namespace moert::cli
