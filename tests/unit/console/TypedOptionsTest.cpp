#include "tools/console/TypedOptions.h"

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include <sstream>

using namespace moert;
using namespace moert::cli;

namespace {

using Words = std::vector<std::string>;

/// A program with a command that has some of the options of moert run.
class Program {
public:
  Program() : app("Does something", "tool") {
    CLI::App *run = app.add_subcommand("run", "Runs");
    run->add_option("artifact", text)->required();
    run->add_option("-p,--prompt,text", text);
    run->add_option("-n,--tokens", text);
    run->add_option("--stop", texts);
    run->add_flag("--json", flag);
    for (const char *name : {"--context", "--threads", "--seed", "--temp", "--top-p", "--min-p",
                             "--repetition-penalty", "--memory"})
      run->add_option(name, text);
    app.add_subcommand("verify", "Verifies")->add_option("artifact", text)->required();
    app.add_subcommand("serve", "Serves")->prefix_command();
    app.set_version_flag("--version", "1");
  }

  Result<Words> own(const std::string &line) const {
    std::istringstream words(line);
    Words typed;
    for (std::string word; words >> word;)
      typed.push_back(word);
    return ownWords(app, typed);
  }
  bool isOwn(const std::string &typed, const std::string &expected) const {
    const Result<Words> words = own(typed);
    std::string line;
    if (words.isOk())
      for (const std::string &word : *words)
        line += (line.empty() ? "" : " ") + word;
    INFO((words.isOk() ? line : words.status().message()));
    CHECK(line == expected);
    return line == expected;
  }
  bool isRefused(const std::string &typed, const std::string &mention) const {
    const Status status = own(typed).status();
    INFO(status.message());
    return status.code() == StatusCode::kInvalidInput &&
           status.message().find(mention) != std::string::npos;
  }

private:
  CLI::App app;
  std::string text;
  Words texts;
  bool flag = false;
};

} // namespace

TEST_CASE("options by other names get ours, with their values") {
  const Program program;
  CHECK(
      program.isOwn("run -m a.moe -c 4096 -t 2 -s -1 --n-predict -1 --temperature 0.7 --top_p 0.9 "
                    "--min_p=0.1 --repeat-penalty 1.1 --ctx_size=64 hello",
                    "run a.moe --context 4096 --threads 2 --seed -1 --tokens -1 --temp 0.7 "
                    "--top-p 0.9 --min-p=0.1 --repetition-penalty 1.1 --context=64 hello"));
}

TEST_CASE("a model that an option gives is the first argument, wherever the option is") {
  const Program program;
  CHECK(program.isOwn("run hello -m a.moe", "run a.moe hello"));
  CHECK(program.isOwn("run --model=a.moe --json", "run a.moe --json"));
  CHECK(program.isRefused("run -m", "-m without a value"));
}

TEST_CASE("values and words after -- are taken as they are") {
  const Program program;
  CHECK(program.isOwn("run a -p -c --stop -t -r x", "run a -p -c --stop -t --stop x"));
  CHECK(program.isOwn("run a -- -c", "run a -- -c"));
  CHECK(program.isOwn("run a -n64", "run a -n64"));
  CHECK(program.isOwn("serve a.moe -c 4 --frob", "serve a.moe -c 4 --frob"));
}

TEST_CASE("an unknown option is refused, with the nearest one of the command") {
  const Program program;
  CHECK(program.isRefused("run a --tempp 1", "no option --tempp; did you mean --temp?"));
  CHECK(program.isRefused("run a --promp=x", "no option --promp; did you mean --prompt?"));
  CHECK(program.isRefused("run a --mem 6GiB", "no option --mem; did you mean --memory?"));
  CHECK(program.isRefused("run a --frobnicate", "no option --frobnicate\ntool run --help lists"));
  CHECK(program.isRefused("verify a -c 4", "tool verify: no option -c\n"));
}

TEST_CASE("the refusal of an option of another program has what is done here instead") {
  const Program program;
  CHECK(program.isRefused("run a -ngl 99", "no option -ngl: layers are not placed by hand"));
  CHECK(program.isRefused("run a --n_gpu_layers=99", "layers are not placed by hand"));
  CHECK(program.isRefused("run a --no-mmap", "files are not mapped"));
}

TEST_CASE("an unknown command is refused, with the nearest one") {
  const Program program;
  CHECK(program.isRefused("rum a", "'rum' is not a command; did you mean run?"));
  CHECK(program.isRefused("frobnicate", "'frobnicate' is not a command\ntool --help lists them"));
  CHECK(program.isRefused("a.moe", "'a.moe' is not a command, expected one before it"));
  CHECK(program.isRefused("--foo=3 run", "no option --foo before the command"));
  CHECK(program.isRefused("", "no command, expected one"));
  CHECK(program.isOwn("--version", "--version"));
}

TEST_CASE("help is a command") {
  const Program program;
  CHECK(program.isOwn("help", "--help"));
  CHECK(program.isOwn("help run", "run --help"));
  CHECK(program.isOwn("help serve", "serve --help"));
  CHECK(program.isRefused("help frobnicate", "is not a command"));
  CHECK(asksForOptions({"help", "options"}));
  CHECK_FALSE(asksForOptions({"help", "run"}));
}

TEST_CASE("the page of other names is as wide as it may be") {
  for (const size_t width : {40, 80, 100}) {
    std::istringstream page(typedOptionsPage(width));
    for (std::string line; std::getline(page, line);)
      CHECK_MESSAGE(line.size() <= width, line);
  }
  CHECK(typedOptionsPage(80).find("  --context                 -c --ctx-size") !=
        std::string::npos);
}
