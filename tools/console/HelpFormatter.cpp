#include "tools/console/HelpFormatter.h"

#include "runtime/base/ShellCommand.h"

#include <sstream>
#include <string_view>

namespace moert::cli {

/// Column of the text beside its name, and of the text below its name on a narrow terminal.
constexpr size_t kTextColumn = 28, kNarrowTextColumn = 6, kNarrowWidth = 70;

/// CLI11's name for the group with --help and --version.
constexpr std::string_view kCommonGroup = "Options";

std::string wrapped(const std::string &text, size_t width, size_t indent) {
  std::string out;
  size_t column = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > 0 && column + 1 + word.size() > width) {
      out += '\n';
      column = 0;
    }
    out += column == 0 ? std::string(indent, ' ') : " ";
    out += word;
    column += (column == 0 ? indent : 1) + word.size();
  }
  return out + "\n";
}

std::string helpEntry(const std::string &name, const std::string &text, size_t width) {
  const bool isNarrow = width < kNarrowWidth;
  const size_t textColumn = isNarrow ? kNarrowTextColumn : kTextColumn;
  const std::string head = "  " + name;
  if (text.empty())
    return head + "\n";
  std::string lines = wrapped(text, width, textColumn);
  if (isNarrow || head.size() + 2 > textColumn)
    return head + "\n" + lines;
  return head + lines.substr(head.size());
}

static std::string argumentName(const CLI::Option &option) {
  return option.get_type_name().empty() ? option.get_name(true) : option.get_type_name();
}

static std::string usageLine(const CLI::App &app, const std::string &name, size_t width) {
  std::string out = "Usage: " + name;
  for (const CLI::Option *option :
       app.get_options([](const CLI::Option *candidate) { return candidate->get_positional(); }))
    out +=
        option->get_required() ? " " + argumentName(*option) : " [" + argumentName(*option) + "]";
  const bool hasCommands =
      !app.get_subcommands([](const CLI::App *command) { return !command->get_name().empty(); })
           .empty();
  return wrapped(out + (hasCommands ? " COMMAND [OPTIONS]" : " [OPTIONS]"), width);
}

static std::string argumentEntries(const CLI::App &app, size_t width) {
  std::string out;
  for (const CLI::Option *option :
       app.get_options([](const CLI::Option *candidate) { return candidate->get_positional(); }))
    out += helpEntry(argumentName(*option), option->get_description(), width);
  return out.empty() ? out : "\nArguments:\n" + out;
}

std::string HelpFormatter::optionEntry(const CLI::Option &option) const {
  std::string name = option.get_name(false, true);
  if (size_t comma = name.find(','); comma != std::string::npos)
    name.insert(comma + 1, " ");
  if (!option.get_type_name().empty())
    name += " " + option.get_type_name();
  if (option.get_expected_max() > 1)
    name += "...";
  return helpEntry(name, option.get_description() + (option.get_required() ? " (required)" : ""),
                   lineWidth);
}

std::string HelpFormatter::optionGroups(const CLI::App &app) const {
  std::string out, common;
  for (const std::string &group : app.get_groups()) {
    auto options = app.get_options([&](const CLI::Option *option) {
      return option->get_group() == group && option->nonpositional();
    });
    if (group.empty() || options.empty()) // Options without a group are hidden.
      continue;
    std::string &place = group == kCommonGroup ? common : out;
    place += "\n" + wrapped((group == kCommonGroup ? "Help" : group) + ":", lineWidth);
    for (const CLI::Option *option : options)
      place += optionEntry(*option);
  }
  return out + common;
}

static std::string footerLines(const std::string &footer, size_t width) {
  std::string out;
  std::istringstream paragraphs(footer);
  for (std::string paragraph; std::getline(paragraphs, paragraph);)
    out +=
        paragraph.starts_with("  ") ? wrappedCommand(paragraph, width) : wrapped(paragraph, width);
  return out;
}

std::string HelpFormatter::make_help(const CLI::App *app, std::string name,
                                     CLI::AppFormatMode) const {
  std::string out = wrapped(app->get_description(), lineWidth) + "\n" +
                    usageLine(*app, name, lineWidth) + argumentEntries(*app, lineWidth);
  std::string commands, groups;
  for (const CLI::App *command : app->get_subcommands({}))
    if (command->get_name().empty()) // Option groups are nameless subcommands.
      groups += optionGroups(*command);
    else
      commands += helpEntry(command->get_name(), command->get_description(), lineWidth);
  if (!commands.empty())
    out += "\nCommands:\n" + commands;
  out += groups + optionGroups(*app);
  const std::string footer = app->get_footer();
  if (!footer.empty())
    out += (footer.front() == '\n' ? "" : "\n") + footerLines(footer, lineWidth);
  return out;
}

std::string exampleFooter(const std::string &commandLine) {
  return "\nExample:\n  " + commandLine;
}

} // namespace moert::cli
