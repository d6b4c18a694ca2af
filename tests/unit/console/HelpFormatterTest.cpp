#include "tools/console/HelpFormatter.h"

#include <doctest/doctest.h>

#include <memory>

using namespace moert::cli;

static std::string helpOf(CLI::App &app, size_t width) {
  app.formatter(std::make_shared<HelpFormatter>(width));
  return app.help();
}

TEST_CASE("text wraps at the width, and a longer word gets a line of its own") {
  CHECK(wrapped("one two three", 7) == "one two\nthree\n");
  CHECK(wrapped("one two three", 6) == "one\ntwo\nthree\n");
  CHECK(wrapped("a  b\nc", 10, 2) == "  a b c\n");
  CHECK(wrapped("a-very-long-word b", 6, 2) == "  a-very-long-word\n  b\n");
}

TEST_CASE("a text has its own column, even after a name that reaches into it") {
  const std::string space(28, ' ');
  CHECK(helpEntry("--bits N", "one two", 80) == "  --bits N" + space.substr(10) + "one two\n");
  CHECK(helpEntry("--a-name-of-more-than-that N", "one", 80) ==
        "  --a-name-of-more-than-that N\n" + space + "one\n");
  CHECK(helpEntry("--bits N", "one two", 50) == "  --bits N\n      one two\n");
}

TEST_CASE(
    "arguments, groups, help and example are in order, and options without a group are hidden") {
  CLI::App app("Does something", "tool");
  std::string value;
  std::vector<std::string> values;
  bool flag = false;
  app.add_option("file", value, "What is read")->type_name("FILE")->required();
  app.add_option("word", value, "Another")->type_name("WORD");
  app.add_option("-o,--output", value, "What is written")->required()->type_name("OUT")->group("B");
  app.add_option("--many", values, "Several")->type_name("X")->group("A");
  app.add_flag("--hidden", flag, "For tests")->group("");
  app.footer("A note.\n" + exampleFooter("tool in -o out"));
  const auto line = [](std::string name, const std::string &text) {
    return name + std::string(28 - name.size(), ' ') + text + "\n";
  };
  CHECK(helpOf(app, 80) == "Does something\n\nUsage: tool FILE [WORD] [OPTIONS]\n\nArguments:\n" +
                               line("  FILE", "What is read") + line("  WORD", "Another") +
                               "\nB:\n" + line("  -o, --output OUT", "What is written (required)") +
                               "\nA:\n" + line("  --many X...", "Several") + "\nHelp:\n" +
                               line("  -h, --help", "Print this help message and exit") +
                               "\nA note.\n\nExample:\n  tool in -o out\n");
}

TEST_CASE("an example that is too long wraps before an option") {
  CLI::App app("Does something", "tool");
  app.footer(exampleFooter("tool in --first 1 2 --second three --third 4"));
  const std::string help = helpOf(app, 40);
  CHECK(help.ends_with("\n\nExample:\n  tool in --first 1 2 --second three \\\n      --third 4\n"));
}
