#include "tools/moert/EngineFlags.h"

#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/engine/DeviceBackend.h"
#include "tools/console/OutputStream.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>

namespace moert::cli {

/// nullopt unless it is a whole number in [minimum, maximum].
static std::optional<uint32_t> parseCount(const std::string &text, uint32_t minimum,
                                          uint32_t maximum) {
  uint32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= minimum &&
                 value <= maximum
             ? std::optional(value)
             : std::nullopt;
}

CLI::Option *addCount(CLI::App &command, const std::string &names, uint32_t minimum,
                      uint32_t maximum, std::function<void(uint32_t)> set,
                      const std::string &description) {
  auto take = [=, set = std::move(set)](const std::string &text) {
    const std::optional<uint32_t> value = parseCount(text, minimum, maximum);
    if (!value)
      throw CLI::ValidationError(
          names, strCat("'", text, "', expected a whole number from ", minimum, " to ", maximum));
    set(*value);
  };
  return command.add_option_function<std::string>(names, take, description)->type_name("N");
}

CLI::Option *addTokens(CLI::App &command, uint32_t minimum, std::function<void(uint32_t)> set,
                       const std::string &description) {
  auto take = [=, set = std::move(set)](const std::string &text) {
    const std::optional<uint32_t> value = parseCount(text, minimum, kMostTokens);
    if (!value && text != "-1")
      throw CLI::ValidationError("-n", strCat("'", text, "', expected a whole number from ",
                                              minimum, " to ", kMostTokens,
                                              ", or -1 for as many as the context has room for"));
    set(value.value_or(kNoLimit));
  };
  return command.add_option_function<std::string>("-n,--tokens", take, description)->type_name("N");
}

std::optional<float> parseDecimal(const std::string &text) {
  std::istringstream reader(text);
  reader.imbue(std::locale::classic());
  float value = 0;
  if (!(reader >> std::noskipws >> value) || reader.peek() != std::char_traits<char>::eof())
    return std::nullopt;
  return value;
}

CLI::Option *addDecimal(CLI::App &command, const std::string &names, std::function<void(float)> set,
                        const std::string &description) {
  auto take = [names, set = std::move(set)](const std::string &text) {
    std::optional<float> value = parseDecimal(text);
    if (!value)
      throw CLI::ValidationError(names, strCat("'", text, "', expected a decimal number"));
    set(*value);
  };
  return command.add_option_function<std::string>(names, take, description);
}

static void addMemory(CLI::App &command, EngineFlags &flags, FollowMemory follow) {
  const bool offersFollow = follow == FollowMemory::kOffered;
  auto take = [&flags, offersFollow](const std::string &text) {
    if (text == "follow" && !offersFollow)
      throw CLI::ValidationError("--memory", "'follow' is an option of moert run, chat and serve, "
                                             "expected a size such as 6GiB or 25%");
    flags.followsMemory = text == "follow";
    flags.memory.reset();
    if (flags.followsMemory)
      return;
    Result<Size> size = parseSize(text);
    if (!size.isOk())
      throw CLI::ValidationError(
          "--memory", strCat(size.status().message(), offersFollow ? ", or follow" : ""));
    flags.memory = BudgetSize{size->bytes, size->fraction};
  };
  command
      .add_option_function<std::string>(
          "--memory", take,
          std::string(
              "Memory limit of the whole process: 512MiB, 6GiB; or 25%: a cache of a quarter of "
              "the bytes that all experts have in the artifact, plus everything else that this run "
              "needs") +
              (offersFollow ? "; or follow: what the container and the free memory allow, while "
                              "they change"
                            : "") +
              " (default: what the container and the free memory allow)")
      ->type_name("SIZE");
}

/// "reference, avx2, avx512", for example.
static std::string isaNames() {
  std::string names;
  for (Isa isa : builtIsas())
    names += (names.empty() ? "" : ", ") + std::string(nameOf(isa));
  return names;
}

static void addNamedChoices(CLI::App &command, EngineFlags &flags) {
  auto takeIo = [&flags](const std::string &text) {
    std::optional<IoBackend> io = parseIoBackend(text);
    if (!io)
      throw CLI::ValidationError("--io",
                                 "'" + text + "', expected auto, uring, threads or buffered");
    flags.io = *io;
  };
  auto takeIsa = [&flags](const std::string &text) {
    flags.isa = parseIsa(text);
    if (!flags.isa && text != "auto")
      throw CLI::ValidationError("--isa", "'" + text + "', expected auto, " + isaNames());
  };
  command
      .add_option_function<std::string>("--io", takeIo,
                                        "How experts are read: auto, uring, threads or buffered "
                                        "(default: auto)")
      ->type_name("NAME");
  command
      .add_option_function<std::string>("--isa", takeIsa,
                                        "Instruction set of the kernels: auto, " + isaNames() +
                                            "; the results are the same (default: auto, the "
                                            "fastest on this machine)")
      ->type_name("NAME");
}

/// "cuda:1" is 1, "auto" and "cuda" are the first one.
static std::optional<uint32_t> parseDevice(const std::string &text) {
  if (text == "auto" || text == "cuda")
    return 0;
  constexpr std::string_view kPrefix = "cuda:";
  return text.starts_with(kPrefix) ? parseCount(text.substr(kPrefix.size()), 0, INT32_MAX)
                                   : std::nullopt;
}

static void addDevice(CLI::App &command, EngineFlags &flags) {
  auto take = [&flags](const std::string &text) {
    flags.device = nullptr;
    flags.isDeviceOptional = text == "auto";
    if (text == "cpu")
      return;
    const std::optional<uint32_t> number = parseDevice(text);
    if (!number)
      throw CLI::ValidationError("--device", "'" + text + "', expected cpu, auto or cuda:N");
    Result<DeviceBackend *> opened = openCudaDevice(*number);
    if (opened.isOk())
      flags.device = *opened;
    else if (flags.isDeviceOptional)
      printError(strCat("the processor computes: ", opened.status().message()));
    else
      throw CLI::ValidationError("--device", opened.status().message());
  };
  auto takeMemory = [&flags](const std::string &text) {
    const Result<Size> size = parseSize(text);
    if (!size.isOk())
      throw CLI::ValidationError("--device-memory", size.status().message());
    flags.deviceMemory = BudgetSize{size->bytes, size->fraction};
  };
  command
      .add_option_function<std::string>(
          "--device", take,
          "Where the model is computed: cpu; cuda:N, a GPU; or auto, the first GPU, or else the "
          "processor. The results are the same (default: cpu)")
      ->type_name("NAME");
  command
      .add_option_function<std::string>(
          "--device-memory", takeMemory,
          "Memory limit on the device, as of --memory (default: what is free there)")
      ->type_name("SIZE");
}

static void addNotices(CLI::App &command, NoticeFlags &notices) {
  CLI::Option *verbose = command.add_flag(
      "-v,--verbose", notices.isVerbose,
      "Also show the memory table, the plan, how experts are read and all numbers");
  command.add_flag("--quiet", notices.isQuiet, "Show nothing but results, warnings and errors")
      ->excludes(verbose)
      ->group("Output");
  verbose->group("Output");
  command
      .add_flag("--memory-table", notices.hasMemoryTable,
                "Show what the process may need of memory, item by item, before loading")
      ->group("Output");
}

void addEngineFlags(CLI::App &command, EngineFlags &flags, FollowMemory follow) {
  addMemory(command, flags, follow);
  addDevice(command, flags);
  command
      .add_option(
          "--preset", flags.preset,
          "Use the largest of the artifact's plans of this preset that fits; moec inspect lists "
          "them (default: the first plan's preset)")
      ->type_name("P");
  addCount(
      command, "--threads", 1, mostThreads(), [&flags](uint32_t n) { flags.threads = n; },
      "Compute threads (default: the cores that this process may use). Fewer are used where the "
      "budget has no memory for all, down to the 4 that plans are made for");
  addNamedChoices(command, flags);
  addCount(
      command, "--prefill-chunk", 1, kMaxPrefillChunk,
      [&flags](uint32_t n) { flags.prefillChunk = n; },
      "Prompt tokens per prefill step; the results are the same (default: the plan's, fewer if the "
      "budget is small)");
  command.add_flag("--exact", flags.isExact,
                   "Wait for every expert that is missing, even if the plan has a miss rule, which "
                   "would lose accuracy");
  for (const char *name : {"--memory", "--device", "--device-memory", "--preset", "--threads",
                           "--io", "--isa", "--prefill-chunk", "--exact"})
    command.get_option(name)->group("Memory and speed");
  addNotices(command, flags.notices);
}

EngineOptions engineOptionsOf(const EngineFlags &flags) {
  EngineOptions options;
  options.memory = flags.memory;
  if (flags.followsMemory)
    options.memory = BudgetSize{memorySignals().bound.bytes, {}};
  options.threads = flags.threads > 0 ? flags.threads : availableCores();
  options.io = flags.io;
  options.isa = flags.isa;
  options.prefillChunk = flags.prefillChunk;
  options.preset = flags.preset;
  options.isExact = flags.isExact;
  options.device = flags.device;
  options.deviceMemory = flags.deviceMemory;
  options.isDeviceOptional = flags.isDeviceOptional;
  return options;
}

} // namespace moert::cli
