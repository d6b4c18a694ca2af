// moec plan: what to expect of a model before it is compiled.
#include "compiler/driver/Outlook.h"
#include "profiles/DeviceFile.h"
#include "tools/console/OutputStream.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <memory>
#include <optional>

using namespace moert;
using moert::cli::writeOutput;

namespace moec::cli {

namespace {

struct PlanFlags {
  OutlookRequest request;
  std::string devicePath;
  bool isJson = false;
};

Status runPlan(PlanFlags &flags) {
  std::optional<DeviceProfile> device;
  if (!flags.devicePath.empty()) {
    MOERT_ASSIGN_OR_RETURN(device, readDeviceFile(flags.devicePath));
    flags.request.device = &*device;
  }
  StepProgress progress;
  MOERT_ASSIGN_OR_RETURN(Outlook outlook, outlookOf(flags.request, sessionWith(progress)));
  return writeOutput(flags.isJson ? outlookJson(outlook, flags.request)
                                  : outlookText(outlook, flags.request));
}

} // namespace

void addPlanCommand(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App *command = app.add_subcommand(
      "plan", "Say whether a model will fit, how large and how fast it will be, before compiling");
  command
      ->add_option("model", flags->request.directory,
                   "Directory with config.json; the weights need not be there")
      ->required()
      ->type_name("CKPT");
  command
      ->add_option("--memory", flags->request.budgets,
                   "Budgets to look at: 512MiB, 6GiB, 25% of the experts")
      ->required()
      ->expected(1, 64)
      ->check(someSize())
      ->type_name("SIZE...");
  command
      ->add_option("--device", flags->devicePath,
                   "Device profile that times are worked out for; moert probe writes one")
      ->check(someWord())
      ->type_name("F.yaml");
  command
      ->add_option("--context", flags->request.context,
                   "Tokens of context to plan for (default: as moec compile)")
      ->check(within(1, uint32_t(1) << 30))
      ->type_name("N");
  command->add_flag("--json", flags->isJson, "As JSON, for programs");
  command->callback([flags, &chosen] { chosen = [flags] { return runPlan(*flags); }; });
}

} // namespace moec::cli
