// moec replan: plans for other budgets, presets and devices, for an existing artifact.
#include "compiler/planning/Replan.h"
#include "tools/console/HelpFormatter.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <memory>

using namespace moert;
using moert::cli::exampleFooter;

namespace moec::cli {

void addReplanCommand(CLI::App &app, Action &chosen) {
  auto request = std::make_shared<ReplanRequest>();
  CLI::App *command = app.add_subcommand(
      "replan", "Plan an artifact for other budgets or another device, without quantizing again");
  command->add_option("artifact", request->artifactPath, "The artifact, which is not changed")
      ->required()
      ->type_name("OUT.moe");
  addOutput(*command, request->outputPath, "The artifact to write")->type_name("NEW.moe");
  addBudgets(*command, request->budgets, "to plan for")->required();
  command
      ->add_option("--preset", request->presets,
                   "How to plan: auto searches for the fastest plan; load-on-demand, lru, edgemoe "
                   "and fate are published systems, for comparison. A plan is made for each "
                   "(default: auto)")
      ->expected(1, 8)
      ->check(someWord())
      ->type_name("NAME");
  command
      ->add_option("--device", request->devicePath,
                   "Device profile to plan for, as moert probe writes it (default: none, and no "
                   "prefetching)")
      ->check(someWord())
      ->type_name("F.yaml");
  command
      ->add_option("--calibration", request->profilePath,
                   "Calibration profile whose trace is used and kept in the new artifact (default: "
                   "the artifact's own)")
      ->check(someWord())
      ->type_name("PROFILE");
  command
      ->add_option("--context", request->context,
                   "Tokens of context to plan for (default: those of the artifact's plans)")
      ->check(within(1, uint32_t(1) << 30))
      ->type_name("N");
  setGroup(*command, "Plans", {"--memory", "--preset", "--device", "--calibration", "--context"});
  command->footer(exampleFooter("moec replan qwen.moe -o small.moe --memory 4GiB --device "
                                "laptop.yaml"));
  command->callback([request, &chosen] {
    chosen = [request] {
      StepProgress progress;
      return replanArtifact(*request, sessionWith(progress));
    };
  });
}

} // namespace moec::cli
