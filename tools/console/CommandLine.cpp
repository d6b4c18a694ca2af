#include "tools/console/CommandLine.h"

#include "runtime/base/FloatMode.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/StandardStreams.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/OutputStream.h"
#include "tools/console/TypedOptions.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

namespace moert::cli {

/// The command's first argument, if it is missing.
static std::string missingArgument(const CLI::App &app) {
  for (const CLI::App *command : app.get_subcommands())
    for (const CLI::Option *option : command->get_options())
      if (option->get_positional() && option->get_required() && option->count() == 0)
        return strCat(option->get_type_name(), " is required: ", option->get_description());
  return "";
}

/// "qwen" of "models/qwen.moe" or "models/qwen/".
static std::string stemOf(const std::string &path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).stem().string();
}

/// A value for an option that is missing: a name after the input, a size, or the kind of value.
static std::string exampleFor(const CLI::Option &option, const std::string &input) {
  const std::string kind = option.get_type_name();
  if (kind == "SIZE")
    return "6GiB";
  if (option.get_name() != "--output" || input.empty())
    return kind;
  const std::string ending =
      kind.rfind('.') == kind.npos ? ".profile" : kind.substr(kind.rfind('.'));
  const std::string name = stemOf(input) + ending;
  return quotedWord(name == std::filesystem::path(input).filename() ? "new-" + name : name);
}

/// The command's options that are missing, and the typed command with them.
static std::string missingOptions(const CLI::App &app, std::span<const std::string> typed) {
  std::string names, command = app.get_name(), further, input;
  for (const std::string &word : typed)
    command += " " + quotedWord(word);
  for (const CLI::App *parsed : app.get_subcommands())
    for (const CLI::Option *option : parsed->get_options()) {
      if (option->get_positional() && input.empty() && option->count() > 0)
        input = option->results().front();
      if (option->get_positional() || !option->get_required() || option->count() > 0)
        continue;
      names += strCat(names.empty() ? "" : " and ", option->get_name());
      further += strCat(" ",
                        option->get_snames().empty() ? option->get_name()
                                                     : "-" + option->get_snames().front(),
                        " ", exampleFor(*option, input));
    }
  return names.empty() ? ""
                       : strCat(names, names.find(" and ") == names.npos ? " is" : " are",
                                " required, such as: ", command, further);
}

static std::string reasonOf(const CLI::App &app, const CLI::ParseError &error,
                            std::span<const std::string> typed) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError)) {
    if (std::string missing = missingArgument(app); !missing.empty())
      return missing;
    if (std::string missing = missingOptions(app, typed); !missing.empty())
      return missing;
  }
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError))
    return error.what();
  std::string reason = "not expected:"; // The exception's own text lists them in reverse order.
  for (const std::string &extra : app.remaining(true))
    reason += " " + extra;
  return reason;
}

static std::string refusalOf(const CLI::App &app, const CLI::ParseError &error,
                             std::span<const std::string> typed) {
  std::string command = app.get_name();
  for (const CLI::App *parsed : app.get_subcommands())
    command += " " + parsed->get_name();
  return strCat(command, ": ", reasonOf(app, error, typed), "\n", command,
                " --help lists its options");
}

/// Prints the output of --help or --version, or why the command line is refused.
static int endUnparsed(const CLI::App &app, const CLI::ParseError &error,
                       std::span<const std::string> typed) {
  if (error.get_exit_code() != 0) {
    printError(refusalOf(app, error, typed));
    return exitCode(invalidInput(error.what()));
  }
  std::ostringstream text;
  app.exit(error, text, text);
  return endProgram(app.get_name(), writeOutput(text.str()));
}

static void buildCommandLine(CLI::App &app, const ProgramInfo &program,
                             std::span<AddCommand *const> commands, Action &chosen) {
  const std::string version = program.name + " " + program.version;
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>(outputWidth()));
  for (AddCommand *add : commands)
    add(app, chosen);
  app.set_version_flag("--version", version, "Print the version and exit");
  for (CLI::App *command : app.get_subcommands({}))
    command->set_version_flag("--version", version, "Print the version and exit");
  app.footer(strCat(program.name, " COMMAND --help, or ", program.name,
                    " help COMMAND, describes a command. ", program.name,
                    " help options lists the names that other programs give to options.\n",
                    "Results go to standard output, everything else to standard error. Exit codes: "
                    "0 done, 1 failed, 2 refused (command line or input), 130 interrupted.\n",
                    exampleFooter(program.example)));
}

int runProgram(const ProgramInfo &program, std::span<AddCommand *const> commands, int argc,
               char **argv) {
  const DefaultFloatMode mode; // Threads that commands start inherit it.
  occupyStandardStreams();
  // A closed pipe and a file size limit become errors of write(), so that a command can still
  // finish or remove its files.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  Action chosen;
  CLI::App app(program.description, program.name);
  const std::vector<std::string> typed(argv + std::min(argc, 1), argv + argc);
  if (asksForOptions(typed))
    return endProgram(program.name, writeOutput(typedOptionsPage(outputWidth())));
  try {
    buildCommandLine(app, program, commands, chosen);
    Result<std::vector<std::string>> words = ownWords(app, typed);
    if (!words.isOk()) {
      printError(words.status().message());
      return exitCode(words.status());
    }
    std::reverse(words->begin(), words->end()); // As the parser takes them.
    app.parse(std::move(words).value());
  } catch (const CLI::ParseError &error) {
    return endUnparsed(app, error, typed);
  }
  return endProgram(program.name, chosen());
}

} // namespace moert::cli
