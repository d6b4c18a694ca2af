// moec replan: other budgets, presets and devices for an artifact that is there.
#include "compiler/planning/Replan.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <memory>

using namespace moert;

namespace moec::cli {

void addReplanCommand(CLI::App &app, Action &chosen) {
  auto request = std::make_shared<ReplanRequest>();
  CLI::App *command = app.add_subcommand(
      "replan", "Plan an artifact for other budgets or another device, without quantizing again");
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
      ->add_option("--preset", request->presets,
                   "How to plan: auto searches, the others are published systems and what they are "
                   "compared with; several give a plan each (default: auto)")
      ->expected(1, 8)
      ->check(someWord())
      ->type_name("{auto|load-on-demand|lru|edgemoe|fate}...");
  command
      ->add_option("--device", request->devicePath,
                   "Device profile to plan for; moert probe writes one (default: none, and nothing "
                   "is guessed ahead)")
      ->check(someWord())
      ->type_name("F.yaml");
  command
      ->add_option("--calibration", request->profilePath,
                   "Calibration profile to take the trace from and to keep it (default: the "
                   "artifact's own)")
      ->check(someWord())
      ->type_name("PROFILE");
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
