#include "runtime/base/ShellCommand.h"

#include <vector>

namespace moert {

std::string quotedWord(const std::string &word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789-_=.,:/+%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos)
    return word;
  std::string quoted = "'";
  for (char each : word)
    quoted += each == '\'' ? "'\\''" : std::string(1, each);
  return quoted + "'";
}

/// Words with their quotes.
static std::vector<std::string> wordsOf(std::string_view command) {
  std::vector<std::string> words;
  char quote = 0;
  bool isOpen = false;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == ' ' && !quote) {
      isOpen = false;
      continue;
    }
    if (!isOpen)
      words.emplace_back();
    isOpen = true;
    words.back() += c;
    if (c == '\\' && quote != '\'' && i + 1 < command.size())
      words.back() += command[++i];
    else if (quote ? c == quote : c == '\'' || c == '"')
      quote = quote ? 0 : c;
  }
  return words;
}

std::string wrappedCommand(std::string_view command, size_t width) {
  constexpr std::string_view kNext = " \\\n      ";
  std::string out = "  ";
  size_t column = out.size();
  std::string unit; // An option with its values.
  auto add = [&] {
    if (unit.empty())
      return;
    const bool isFirst = column == 2;
    if (!isFirst && column + 1 + unit.size() + 2 > width) {
      out += kNext;
      column = 6;
    } else if (!isFirst) {
      out += ' ';
      ++column;
    }
    out += unit;
    column += unit.size();
    unit.clear();
  };
  for (const std::string &word : wordsOf(command)) {
    if ((word.front() == '-' && word.size() > 1) || word == "&&")
      add();
    unit += (unit.empty() ? "" : " ") + word;
  }
  add();
  return out + "\n";
}

} // namespace moert
