// moec replan: other budgets for an artifact that is there.
#include "compiler/driver/Replan.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <memory>

using namespace moert;

namespace moec::cli {

void addReplanCommand(CLI::App &app, Action &chosen) {
  auto request = std::make_shared<ReplanRequest>();
  CLI::App *command = app.add_subcommand(
      "replan", "Plan an artifact for other budgets, without quantizing anything again");
  command->add_option("artifact", request->artifactPath, "The artifact, which stays as it is")
      ->required()
      ->type_name("OUT.moe");
  command->add_option("-o,--output", request->outputPath, "The artifact to write")
      ->required()
      ->type_name("NEW.moe");
  command
      ->add_option("--memory", request->budgets,
                   "Budgets to plan for: 512MiB, 6GiB, 25% of the experts")
      ->required()
      ->expected(1, 64)
      ->check(someSize())
      ->type_name("SIZE...");
  command
      ->add_option("--context", request->context,
                   "Tokens of context to plan for (default: what the artifact was planned for)")
      ->check(within(1, uint32_t(1) << 30))
      ->type_name("N");
  command->callback([request, &chosen] {
    chosen = [request] {
      StepProgress progress;
      return replanArtifact(*request, sessionWith(progress));
    };
  });
}

} // namespace moec::cli
