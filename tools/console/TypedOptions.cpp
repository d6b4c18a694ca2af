#include "tools/console/TypedOptions.h"

#include "runtime/base/Excerpt.h"
#include "tools/console/HelpFormatter.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace moert::cli {

namespace {

/// Names are separated by spaces.
struct OtherNames {
  std::string_view own; // Empty: the command's first argument.
  std::string_view typed;
};

/// Names of llama.cpp, ollama, vLLM and transformers. They apply to each command that has the own
/// name and no option of the typed one.
constexpr OtherNames kOtherNames[] = {
    {"", "-m --model"},
    {"--context", "-c --ctx-size --num-ctx --max-model-len"},
    {"--threads", "-t --num-threads"},
    {"--seed", "-s"},
    {"--tokens", "--n-predict --predict --num-predict --max-tokens --max-new-tokens"},
    {"--temp", "--temperature"},
    {"--repetition-penalty", "--repeat-penalty"},
    {"--stop", "-r --reverse-prompt"},
    {"--system", "-sys --system-prompt"},
    {"--template", "--chat-template-file"},
    {"--prefill-chunk", "-b --batch-size -ub --ubatch-size"},
    {"--sessions", "-np --parallel --max-num-seqs"},
    {"--model-name", "-a --alias --served-model-name"},
    {"--output", "--outfile --out"},
};

struct OtherOptions {
  std::string_view typed;
  std::string_view instead;
};

/// Options of the same programs for which there is no option of ours.
constexpr OtherOptions kOtherOptions[] = {
    {"-ngl --gpu-layers --n-gpu-layers -ncmoe --n-cpu-moe --cpu-moe -ot --override-tensor "
     "--gpu-memory-utilization",
     "layers are not placed by hand; --memory SIZE limits the process, and the artifact's plan "
     "decides which experts stay in memory"},
    {"--mmap --no-mmap --mlock --direct-io",
     "files are not mapped; experts are read past the page cache into memory that --memory limits, "
     "and --io buffered reads them through it"},
    {"-fa --flash-attn",
     "there is one implementation of attention, which never holds all scores of a context"},
    {"-ctk --cache-type-k -ctv --cache-type-v --kv-cache-dtype",
     "the width is chosen when compiling: moec compile --kv-bits"},
    {"-dev --main-gpu --split-mode --tensor-split --tensor-parallel-size",
     "the CPU computes; --isa chooses its kernels"},
    {"-C --cpu-mask --numa --prio",
     "the system places the threads; taskset or numactl limits them to some cores"},
    {"-cnv --conversation -i --interactive",
     "moert chat is a conversation, moert run continues a text"},
    {"-no-cnv --no-conversation -st --single-turn",
     "moert run continues a text, moert chat -p TEXT answers once"},
    {"--jinja --chat-template",
     "moert chat and moert serve render the checkpoint's own template; --template FILE of moert "
     "chat takes another"},
    {"--grammar --grammar-file --json-schema -j",
     "moert serve takes response_format with each request"},
    {"--mirostat --typical --typical-p --dynatemp-range --xtc-probability --dry-multiplier",
     "tokens are drawn with --temp, --top-k, --top-p, --min-p and the penalties"},
    {"--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale",
     "positions are computed as the checkpoint's config.json says"},
    {"--dtype --quantization --load-in-4bit --load-in-8bit",
     "widths are chosen when compiling: moec compile --bits, --resident-bits, --head-bits"},
    {"--lora --lora-scaled", "adapters are not applied; merge them into the checkpoint first"},
    {"-hf --hf-repo --model-url",
     "nothing is downloaded: hf download ORGANIZATION/NAME --local-dir NAME, then moec compile "
     "NAME -o NAME.moe"},
    {"-e --escape", "a prompt is taken unchanged; the shell's $'...\\n' writes a line break"},
    {"--no-display-prompt --no-warmup --log-disable --simple-io --color",
     "standard output has the generated text alone; --quiet omits the lines on standard error"},
};

/// Calls `take` with each name of a list until it returns true.
template <typename Take> bool anyName(std::string_view names, const Take &take) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (take(names.substr(0, end)))
      return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

bool hasName(std::string_view names, std::string_view wanted) {
  return anyName(names, [&](std::string_view name) { return name == wanted; });
}

/// "--top_k" is typed for "--top-k".
std::string withDashes(std::string name) {
  if (name.starts_with("--"))
    std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::optional<std::string_view> otherNameOf(const std::string &typed) {
  for (const OtherNames &row : kOtherNames)
    if (hasName(row.typed, typed))
      return row.own;
  return std::nullopt;
}

/// Letters to insert, remove, replace or exchange with their neighbour to make one word of the
/// other.
size_t editsBetween(std::string_view one, std::string_view other) {
  std::vector<size_t> beforeLast, last(other.size() + 1), row(other.size() + 1);
  std::iota(last.begin(), last.end(), size_t(0));
  for (size_t i = 1; i <= one.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= other.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (one[i - 1] != other[j - 1])});
      if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1])
        row[j] = std::min(row[j], beforeLast[j - 2] + 1);
    }
    beforeLast = std::exchange(last, row);
  }
  return last.back();
}

/// The name that a word was probably meant for.
class Nearest {
public:
  explicit Nearest(std::string_view typedWord)
      : word(typedWord), fewest(typedWord.size() / 3 + 1) {}

  void offer(std::string_view name, std::string_view meaning) {
    const bool isBeginning = word.size() >= 5 && name.starts_with(word); // "--mem".
    const size_t edits = isBeginning ? 1 : editsBetween(word, name);
    if (edits >= fewest)
      return;
    fewest = edits;
    best = meaning;
  }
  std::string text() const { return best.empty() ? "" : strCat("; did you mean ", best, "?"); }

private:
  std::string_view word;
  size_t fewest;
  std::string best;
};

/// The words of one command line. Lives shorter than the command.
class CommandWords {
public:
  CommandWords(const CLI::App &parsedCommand, std::string commandTitle)
      : command(parsedCommand), title(std::move(commandTitle)) {}

  Result<std::vector<std::string>> own(std::span<std::string> typed) {
    while (!typed.empty()) {
      const std::string &word = typed.front();
      if (word == "--") {
        others.insert(others.end(), typed.begin(), typed.end());
        break;
      }
      size_t taken = 1;
      if (isOption(word)) {
        MOERT_ASSIGN_OR_RETURN(taken, takeOption(typed));
      } else {
        others.push_back(word);
      }
      typed = typed.subspan(taken);
    }
    std::vector<std::string> all = std::move(models);
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }

private:
  static bool isOption(const std::string &word) {
    return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9') && word[1] != '.';
  }

  const CLI::Option *find(std::string_view name) const {
    return command.get_option_no_throw(std::string(name));
  }
  bool hasArgument() const {
    return !command.get_options([](const CLI::Option *each) { return each->get_positional(); })
                .empty();
  }

  /// Our name of an option that the command has; empty for its first argument.
  std::optional<std::string> ownName(const std::string &typed) const {
    if (find(typed))
      return typed;
    const std::string dashed = withDashes(typed);
    if (find(dashed))
      return dashed;
    const std::optional<std::string_view> other = otherNameOf(dashed);
    if (other && (other->empty() ? hasArgument() : find(*other) != nullptr))
      return std::string(*other);
    // "-n64", which is one word.
    return typed[1] != '-' && find(typed.substr(0, 2)) ? std::optional(typed) : std::nullopt;
  }

  /// Takes an option and the values that it has in any case. Returns the number of words.
  Result<size_t> takeOption(std::span<std::string> typed) {
    const std::string &word = typed.front();
    const size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    for (const OtherOptions &row : kOtherOptions)
      if (hasName(row.typed, withDashes(name)) && !find(name))
        return invalidInput(title, ": no option ", excerpt(name), ": ", row.instead);
    const std::optional<std::string> own = ownName(name);
    if (!own)
      return unknown(name);
    if (own->empty()) {
      if (equals < word.size())
        models.push_back(word.substr(equals + 1));
      else if (typed.size() > 1)
        models.push_back(typed[1]);
      else
        return invalidInput(title, ": ", name, " without a value, expected the model's file");
      return std::min<size_t>(equals < word.size() ? 1 : 2, typed.size());
    }
    others.push_back(*own + word.substr(equals));
    const CLI::Option *option = find(*own);
    const size_t values =
        equals < word.size() || !option
            ? 0
            : std::min(static_cast<size_t>(option->get_items_expected_min()), typed.size() - 1);
    others.insert(others.end(), typed.begin() + 1,
                  typed.begin() + 1 + static_cast<ptrdiff_t>(values));
    return 1 + values;
  }

  Status unknown(const std::string &name) const {
    Nearest nearest(name);
    for (const CLI::Option *option : command.get_options())
      for (const std::string &each : option->get_lnames())
        nearest.offer("--" + each, "--" + each);
    for (const OtherNames &row : kOtherNames)
      if (!row.own.empty() && find(row.own))
        anyName(row.typed, [&](std::string_view each) {
          nearest.offer(each, row.own);
          return false;
        });
    return invalidInput(title, ": no option ", excerpt(name), nearest.text(), "\n", title,
                        " --help lists its options");
  }

  const CLI::App &command;
  const std::string title; // "moert run"
  std::vector<std::string> models, others;
};

/// What most people want to do with an artifact.
std::string exampleWith(const CLI::App &program, const std::string &file) {
  const char *command = program.get_name() == "moert" ? " chat " : " inspect ";
  return file.ends_with(".moe") ? strCat(", such as: ", program.get_name(), command, excerpt(file))
                                : "";
}

Status unknownCommand(const CLI::App &program, const std::string &word) {
  const std::string &title = program.get_name();
  if (word.starts_with('-'))
    return invalidInput(title, ": no option ", excerpt(word.substr(0, word.find('='))),
                        " before the command, expected ", title,
                        " COMMAND with its options after it\n", title,
                        " --help lists the commands");
  if (word.find_first_of("./") != std::string::npos) // A file.
    return invalidInput(title, ": '", excerpt(word), "' is not a command, expected one before it",
                        exampleWith(program, word), "\n", title, " --help lists them");
  Nearest nearest(word);
  for (const CLI::App *command : program.get_subcommands({}))
    nearest.offer(command->get_name(), command->get_name());
  return invalidInput(title, ": '", excerpt(word), "' is not a command", nearest.text(), "\n",
                      title, " --help lists them");
}

const CLI::App *commandOf(const CLI::App &program, const std::string &name) {
  for (const CLI::App *command : program.get_subcommands({}))
    if (command->get_name() == name)
      return command;
  return nullptr;
}

} // namespace

bool asksForOptions(const std::vector<std::string> &typed) {
  return typed.size() == 2 && typed[0] == "help" && typed[1] == "options";
}

Result<std::vector<std::string>> ownWords(const CLI::App &program, std::vector<std::string> typed) {
  const std::string &title = program.get_name();
  if (typed.empty())
    return invalidInput(title, ": no command, expected one\n", title, " --help lists them");
  if (typed[0] == "help") {
    typed.erase(typed.begin());
    typed.push_back("--help");
  }
  const std::string first = typed[0];
  if (first.starts_with('-') && program.get_option_no_throw(first.substr(0, first.find('='))))
    return typed;
  const CLI::App *command = commandOf(program, first);
  if (!command)
    return unknownCommand(program, first);
  if (command->get_prefix_command()) // Its words are another program's.
    return typed;
  MOERT_ASSIGN_OR_RETURN(
      std::vector<std::string> words,
      CommandWords(*command, strCat(title, " ", first)).own(std::span(typed).subspan(1)));
  words.insert(words.begin(), first);
  return words;
}

std::string typedOptionsPage(size_t width) {
  std::string page = wrapped("Options by other names, where a command has them:", width);
  for (const OtherNames &row : kOtherNames)
    page += helpEntry(row.own.empty() ? "the model's file" : std::string(row.own),
                      std::string(row.typed), width);
  page += wrapped("In a name that begins with --, _ is taken for -. -n -1 has no limit but the "
                  "context, --seed -1 draws a seed.",
                  width);
  page += "\n" + wrapped("Options of other programs, and what is done here instead:", width);
  for (const OtherOptions &row : kOtherOptions)
    page += wrapped(std::string(row.typed) + ":", width, 2) +
            wrapped(std::string(row.instead), width, 6);
  return page;
}

} // namespace moert::cli
