// The layout of --help: options by what they are for, descriptions wrapped to a terminal's width,
// what every command has at the end.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace moert::cli {

/// Owned by the App, which shares it with its subcommands.
class HelpFormatter : public CLI::FormatterBase {
public:
  std::string make_help(const CLI::App *app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

/// "  NAME       TEXT", the text in lines of its own column.
std::string helpEntry(const std::string &name, const std::string &text);

} // namespace moert::cli
