// What the subcommands' options have in common: checks whose words the option's type name says
// already, and defaults that help takes from the code.
#pragma once

#include "runtime/base/Status.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace moec::cli {

CLI::Validator oneOf(std::vector<std::string> words);
CLI::Validator within(uint64_t low, uint64_t high);
/// 512MiB, 6GiB, or a share such as 25%.
CLI::Validator someSize();
/// An empty word would pass for an option that was not given.
CLI::Validator someWord();

template <typename Value>
std::string withDefault(const std::string &description, const Value &value) {
  return moert::strCat(description, " (default: ", value, ")");
}

} // namespace moec::cli
