#include "tools/moec/Options.h"

#include "compiler/import/gguf/GgufCheckpoint.h"
#include "runtime/base/Excerpt.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"

#include <algorithm>
#include <filesystem>

using namespace moert;

namespace moec::cli {

bool isCompiled(const std::string &path) {
  std::error_code error; // Reported later, when the file is opened.
  return std::filesystem::is_regular_file(path, error) && !beginsAsGguf(path);
}

CLI::Validator oneOf(std::vector<std::string> words) {
  return CLI::Validator(
      [words = std::move(words)](std::string &text) {
        if (std::ranges::find(words, text) != words.end())
          return std::string();
        std::string reason = strCat("'", excerpt(text), "', expected ");
        for (size_t i = 0; i < words.size(); ++i)
          reason += strCat(i == 0 ? "" : i + 1 < words.size() ? ", " : " or ", words[i]);
        return reason;
      },
      "");
}

CLI::Validator within(uint64_t low, uint64_t high) {
  const CLI::Range range(low, high);
  const std::string expected = strCat("expected a whole number from ", low, " to ", high);
  return CLI::Validator(
      [range, expected](std::string &text) {
        return range(text).empty() ? std::string() : strCat("'", excerpt(text), "', ", expected);
      },
      "");
}

CLI::Validator someSize() {
  return CLI::Validator(
      [](std::string &text) {
        auto size = parseSize(text);
        return size.isOk() ? std::string() : size.status().message();
      },
      "");
}

CLI::Validator someWord() {
  return CLI::Validator([](std::string &text) { return text.empty() ? "is empty" : std::string(); },
                        "");
}

void setGroup(CLI::App &command, const std::string &group,
              std::initializer_list<const char *> names) {
  for (const char *name : names)
    command.get_option(name)->group(group);
}

CLI::Option *addOutput(CLI::App &command, std::string &path, const std::string &description) {
  return command.add_option("-o,--output", path, description)->required()->group("Output");
}

CLI::Option *addBudgets(CLI::App &command, std::vector<std::string> &budgets,
                        const std::string &purpose) {
  return command
      .add_option("--memory", budgets,
                  strCat("Memory budgets ", purpose,
                         ": 512MiB, 6GiB, or 25%: a cache of a quarter of the bytes that all "
                         "experts have in the artifact, plus everything else that a run with "
                         "--context tokens may need"))
      ->expected(1, 64)
      ->check(someSize())
      ->type_name("SIZE");
}

void addRunning(CLI::App &command, unsigned &threads, bool *resume, bool *restart) {
  threads = availableCores();
  command
      .add_option("--threads", threads,
                  "Compute threads (default: the cores that this process may use)")
      ->check(within(1, mostThreads()))
      ->type_name("N")
      ->group("Running");
  if (!resume)
    return;
  CLI::Option *resuming =
      command.add_flag("--resume", *resume, "Resume this command after an interruption");
  command
      .add_flag("--restart", *restart,
                "Remove what an interrupted command with this output left and begin anew. Without "
                "--resume or --restart a command that could resume it is refused")
      ->excludes(resuming)
      ->group("Running");
  resuming->group("Running");
}

CLI::Option *addDocumentSeparator(CLI::App &command, std::string &separator) {
  return command
      .add_option("--document-separator", separator,
                  withDefault("The line between two documents of a text that is not .jsonl; \"\": "
                              "each file is one document",
                              separator))
      ->type_name("LINE");
}

} // namespace moec::cli
