#include "tools/moert/HelpFormatter.h"

namespace moert::cli {

constexpr size_t kTextColumn = 28, kWidth = 96;

std::string helpEntry(const std::string &name, const std::string &text) {
  std::string out = "  " + name;
  size_t column = out.size();
  if (column + 2 > kTextColumn) {
    out += '\n';
    column = 0;
  }
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > kTextColumn && column + 1 + word.size() > kWidth) {
      out += '\n';
      column = 0;
    }
    if (column < kTextColumn) {
      out.append(kTextColumn - column, ' ');
      column = kTextColumn;
    } else {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + "\n";
}

static std::string usageLine(const CLI::App &app, const std::string &name) {
  std::string out = "\nUsage: " + name;
  for (const CLI::Option *option :
       app.get_options([](const CLI::Option *candidate) { return candidate->get_positional(); }))
    out += " " + option->get_name(true);
  return out + (app.get_subcommands({}).empty() ? " [OPTIONS]\n" : " COMMAND [OPTIONS]\n");
}

static std::string optionEntry(const CLI::Option &option) {
  std::string name = option.get_name(false, true);
  if (size_t comma = name.find(','); comma != std::string::npos)
    name.insert(comma + 1, " ");
  if (!option.get_type_name().empty())
    name += " " + option.get_type_name();
  if (option.get_expected_max() > 1)
    name += "...";
  return helpEntry(name, option.get_description() + (option.get_required() ? " (required)" : ""));
}

static std::string optionGroups(const CLI::App &app) {
  // CLI11's name of the group that --help and --version are in.
  const std::string kCommonGroup = "Options";
  std::string out, common;
  for (const std::string &group : app.get_groups()) {
    auto options = app.get_options([&](const CLI::Option *option) {
      return option->get_group() == group && option->nonpositional();
    });
    if (group.empty() || options.empty()) // Options of no group are not for people.
      continue;
    std::string &place = group == kCommonGroup ? common : out;
    place += "\n" + (group == kCommonGroup ? "Help" : group) + ":\n";
    for (const CLI::Option *option : options)
      place += optionEntry(*option);
  }
  return out + common;
}

std::string HelpFormatter::make_help(const CLI::App *app, std::string name,
                                     CLI::AppFormatMode) const {
  std::string out = app->get_description() + "\n" + usageLine(*app, name);
  std::string commands;
  for (const CLI::App *command : app->get_subcommands({}))
    commands += helpEntry(command->get_name(), command->get_description());
  if (!commands.empty())
    out += "\nCommands:\n" + commands;
  out += optionGroups(*app);
  if (!app->get_footer().empty())
    out += "\n" + app->get_footer() + "\n";
  return out;
}

} // namespace moert::cli
