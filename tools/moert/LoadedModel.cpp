#include "tools/moert/LoadedModel.h"

#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/engine/DeviceBackend.h"
#include "runtime/engine/Footprint.h"
#include "tools/console/OutputStream.h"
#include "tools/console/ProgressLine.h"
#include "tools/console/WrappedLines.h"

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <malloc.h>
#include <unistd.h>

namespace moert::cli {

constexpr int kNameColumns = 26, kBytesColumns = 16, kSizeColumns = 9;
constexpr size_t kRowColumns = 2 + kNameColumns + kBytesColumns + 4 + kSizeColumns;

std::string accountText(const MemoryAccount &account, const std::string &title, size_t columns) {
  std::ostringstream text;
  const bool hasExact = columns == 0 || columns >= kRowColumns;
  auto line = [&](const std::string &name, uint64_t bytes) {
    text << "  " << std::left << std::setw(kNameColumns) << name << std::right;
    if (hasExact)
      text << std::setw(kBytesColumns) << bytes << " B  ";
    text << std::setw(kSizeColumns) << formatBytes(bytes) << "\n";
  };
  text << title << "\n";
  for (const MemoryItem &item : account.items) {
    if (item.bytes == 0)
      continue;
    line(item.name, item.bytes);
  }
  line("total", account.totalBytes());
  line("budget", account.budgetBytes);
  return text.str();
}

uint32_t contextWithinBudget(const Model &model, uint32_t wanted,
                             const OptionsForContext &options) {
  uint32_t tokens = wanted;
  while (tokens > kLeastContext && !accountMemory(model, options(tokens)).isOk())
    tokens = std::max(tokens / 2, kLeastContext);
  return tokens;
}

/// The refusal of a budget that is too small, with the options that make it suffice.
static Status withLevers(Status refusal, const Model &model, const EngineOptions &options,
                         const LoadWords &words) {
  const Result<uint64_t> smallest = smallestBudget(model, options);
  const BudgetSize budget = options.memory.value_or(BudgetSize{availableMemoryBytes(), {}});
  const bool isTooSmall = smallest.isOk() && !budget.expertFraction && budget.bytes < *smallest;
  const uint64_t perToken = kvBytesPerToken(model.artifact());
  if (words.levers.empty() || !isTooSmall || perToken == 0)
    return refusal;
  return Status(refusal.code(),
                strCat(refusal.message(), ". Each token of context takes ", formatBytes(perToken),
                       ": ", words.levers, " lowers that", words.furtherLevers));
}

/// What a percentage came to, and what else the command needs.
static std::string percentText(const MemoryAccount &account, double fraction) {
  MemoryAccount others = account;
  const MemoryItem cache = others.items.back();
  others.items.pop_back();
  return strCat("budget     ", fraction * 100, "% of the experts: ", formatBytes(cache.bytes),
                ", and ", formatBytes(others.totalBytes()), " for the rest with ",
                account.contextTokens, " tokens of context",
                account.sessions > 1 ? strCat(" and ", account.sessions, " sequences") : "",
                largestItems(others), "; ", formatBytes(account.totalBytes()), " in all");
}

Result<LoadedModel> loadModel(std::unique_ptr<Model> model, const EngineOptions &options,
                              const NoticeFlags &notices, const LoadWords &words) {
  LoadedModel loaded{std::move(model), options, {}, nullptr};
  Result<MemoryAccount> account = accountMemory(*loaded.model, options);
  if (!account.isOk())
    return withLevers(account.status(), *loaded.model, options, words);
  loaded.account = std::move(account).value();
  if (notices.showsMemory())
    writeError(accountText(loaded.account, words.title, terminalColumns(STDERR_FILENO)));
  if (options.device) {
    const Result<MemoryAccount> onDevice =
        options.device->account(*loaded.model, options, loaded.account);
    if (onDevice.isOk() && notices.showsMemory())
      writeError(accountText(*onDevice, strCat("memory of ", options.device->name()),
                             terminalColumns(STDERR_FILENO)));
    if (!onDevice.isOk() && !options.isDeviceOptional)
      return onDevice.status();
    if (!onDevice.isOk() && !notices.isQuiet)
      printError(strCat("the processor computes: ", onDevice.status().message()));
  }
  if (notices.isVerbose && loaded.account.threads < options.threads)
    printError(strCat(loaded.account.threads, " of ", options.threads,
                      " threads are used: the budget has no memory for more"));
  if (options.memory && options.memory->expertFraction && !notices.isQuiet)
    printError(percentText(loaded.account, *options.memory->expertFraction));
  // Returns to the system the memory that reading and tokenizing a text has freed.
  ::malloc_trim(0);
  ProgressLine progress("loading", describeBytes);
  MOERT_ASSIGN_OR_RETURN(loaded.engine, Engine::load(*loaded.model, options, loaded.account,
                                                     [&](uint64_t done, uint64_t total) {
                                                       if (!notices.isQuiet)
                                                         progress.update(done, total);
                                                     }));
  return loaded;
}

bool takesInput(const Model &model) {
  return computesWholeCalls(model.artifact());
}

Status checkContinuesTexts(const Model &model, const std::string &command) {
  if (!takesInput(model))
    return {};
  const bool hasEncoder = findProgram(model.artifact().programs, programs::kEncode) != nullptr;
  return invalidInput(model.path(), ": ", model.artifact().model.modelType,
                      hasEncoder ? " has an encoder: it answers one input and continues no text; "
                                 : " computes a prompt as a whole; ",
                      command, " expects a decoder, use moert run with this model");
}

Result<const Tokenizer *> tokenizerOf(const Model &model, const std::string &neededFor) {
  if (model.tokenizer())
    return model.tokenizer();
  return invalidInput(model.path(), " has no tokenizer, expected one for ", neededFor);
}

const Plan &planOf(const LoadedModel &loaded) {
  return loaded.model->artifact().plans[loaded.account.plan];
}

uint64_t peakMemoryBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream fields(line);
    std::string name;
    uint64_t kibibytes = 0;
    if (fields >> name >> kibibytes && name == "VmHWM:")
      return kibibytes * 1024;
  }
  return 0;
}

} // namespace moert::cli
