// Helpers that several commands share: checks, defaults that help takes from the code, and common
// options.
#pragma once

#include "runtime/base/Status.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace moec::cli {

CLI::Validator oneOf(std::vector<std::string> words);
CLI::Validator within(uint64_t low, uint64_t high);
/// 512MiB, 6GiB, or a percentage such as 25%.
CLI::Validator someSize();
/// Refuses an empty value, which would otherwise read as an option that was not given.
CLI::Validator someWord();

/// Whether a path is that of an artifact, or of a file that can be nothing else; a checkpoint is a
/// folder or a GGUF file.
bool isCompiled(const std::string &path);

/// Puts options under a heading of --help.
void setGroup(CLI::App &command, const std::string &group,
              std::initializer_list<const char *> names);

/// Options that several commands share, with the same description.
CLI::Option *addOutput(CLI::App &command, std::string &path, const std::string &description);
CLI::Option *addBudgets(CLI::App &command, std::vector<std::string> &budgets,
                        const std::string &purpose);
/// Adds --threads and, for a command that can be interrupted, --resume and --restart, under their
/// own heading. Sets the default of threads.
void addRunning(CLI::App &command, unsigned &threads, bool *resume = nullptr,
                bool *restart = nullptr);

/// Adds --document-separator; `separator` has its default.
CLI::Option *addDocumentSeparator(CLI::App &command, std::string &separator);

template <typename Value>
std::string withDefault(const std::string &description, const Value &value) {
  return moert::strCat(description, " (default: ", value, ")");
}

} // namespace moec::cli
