#include "compiler/report/RunCommand.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/ShellCommand.h"

#include <algorithm>

using namespace moert;

namespace moec {

std::string sizeOption(uint64_t bytes) {
  constexpr uint64_t kKib = 1 << 10, kMib = 1 << 20, kManyMib = 256;
  return bytes < kManyMib * kMib ? strCat(divideUp(bytes, kKib), "KiB")
                                 : strCat(divideUp(bytes, kMib), "MiB");
}

std::string runCommand(const RunSimulation &simulation, const CommandChange &change) {
  const RunFacts &facts = simulation.run().facts;
  std::vector<std::string> words = facts.options.value_or(std::vector<std::string>());
  const auto isMemory = [](const std::string &word) { return word.starts_with("--memory="); };
  if (change.memoryBytes)
    std::erase_if(words, isMemory);
  std::string command =
      strCat("moert run ", quotedWord(simulation.inputs().artifactPath),
             facts.promptChecksum ? (facts.promptFile ? " -f " : " -p ") : " --ids ",
             quotedWord(facts.promptFile.value_or("PROMPT")), " -n ", facts.generatedTokens,
             " --threads ", change.threads.value_or(facts.threads), " --context ",
             facts.contextTokens, " --preset ", quotedWord(facts.preset));
  // A budget relative to the experts leaves more to other memory than the same bytes would.
  if (std::ranges::none_of(words, isMemory))
    command += strCat(" --memory ", sizeOption(change.memoryBytes.value_or(facts.budgetBytes)));
  for (const std::string &word : words)
    command += strCat(" ", quotedWord(word));
  return command + " --profile RUN.json";
}

} // namespace moec
