// The layout of --help: arguments and options in groups, each with its text in one column, then
// notes and an example, in lines of the terminal's width.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>

namespace moert::cli {

/// Owned by the App, which shares it with its commands.
///
/// A footer is a list of paragraphs, one per line. Those that begin with two spaces are command
/// lines: where one is too long, it goes on in the next line as a shell takes it.
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

/// The words of a text in lines of so many characters, each behind `indent` spaces. A longer word
/// has its line alone.
std::string wrapped(const std::string &text, size_t width, size_t indent = 0);

/// "  NAME       TEXT", the text in lines of its own column. A name that reaches the column, and
/// any name where the width is small, has its line alone.
std::string helpEntry(const std::string &name, const std::string &text, size_t width);

/// The end of a command's footer: the heading and the command line.
std::string exampleFooter(const std::string &commandLine);

} // namespace moert::cli
