// moec plan: what to expect of a model before it is compiled, or of an artifact under other plans.
#include "compiler/inspection/InspectSections.h"
#include "compiler/planning/Outlook.h"
#include "compiler/planning/PicturePlan.h"
#include "compiler/planning/Replan.h"
#include "profiles/DeviceFile.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/base/OutputFile.h"
#include "tools/console/OutputStream.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <filesystem>
#include <memory>
#include <optional>

using namespace moert;
using moert::cli::writeOutput;

namespace moec::cli {

namespace {

struct PlanFlags {
  std::string modelPath; // A directory or an artifact.
  std::vector<std::string> budgets, presets;
  std::string devicePath, profilePath, picturePath;
  uint32_t context = 0;
  bool isJson = false;
};

} // namespace

//===-- A checkpoint --------------------------------------------------------------------------===//

/// What only an artifact can answer.
static Status checkForCheckpoint(const PlanFlags &flags) {
  const std::string needs =
      strCat(" needs an artifact, ", flags.modelPath, " is a model that is not compiled yet");
  if (!flags.presets.empty())
    return invalidInput("--preset", needs);
  if (!flags.profilePath.empty())
    return invalidInput("--calibration", needs);
  if (!flags.picturePath.empty())
    return invalidInput("--picture", needs);
  return {};
}

static Status planCheckpoint(const PlanFlags &flags) {
  MOERT_RETURN_IF_ERROR(checkForCheckpoint(flags));
  OutlookRequest request{flags.modelPath, flags.budgets, nullptr, flags.context};
  std::optional<DeviceProfile> device;
  if (!flags.devicePath.empty()) {
    MOERT_ASSIGN_OR_RETURN(device, readDeviceFile(flags.devicePath));
    request.device = &*device;
  }
  StepProgress progress;
  MOERT_ASSIGN_OR_RETURN(Outlook outlook, outlookOf(request, sessionWith(progress)));
  return writeOutput(flags.isJson ? outlookJson(outlook, request) : outlookText(outlook, request));
}

//===-- An artifact ---------------------------------------------------------------------------===//

static std::string plansJson(const Artifact &artifact, const std::string &fileName) {
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  json.key("file").string(fileName);
  writePlans(json, artifact);
  json.endObject();
  return text + "\n";
}

static Status planCompiled(const PlanFlags &flags) {
  ReplanRequest request;
  request.artifactPath = flags.modelPath;
  request.budgets = flags.budgets;
  request.presets = flags.presets;
  request.devicePath = flags.devicePath;
  request.profilePath = flags.profilePath;
  request.context = flags.context;
  if (!flags.picturePath.empty())
    MOERT_RETURN_IF_ERROR(checkReplacesNone(
        flags.picturePath,
        std::vector<std::string>{flags.modelPath, flags.devicePath, flags.profilePath}));
  StepProgress progress;
  const Session session = sessionWith(progress);
  MOERT_ASSIGN_OR_RETURN(PlannedArtifact planned, planArtifact(request, session));
  if (!flags.picturePath.empty()) {
    MOERT_RETURN_IF_ERROR(writePlanPicture(planned, flags.modelPath, flags.picturePath));
    session.say(strCat("wrote ", flags.picturePath));
  }
  return writeOutput(flags.isJson ? plansJson(planned.artifact, flags.modelPath)
                                  : describePlans(planned.artifact));
}

static Status runPlan(const PlanFlags &flags) {
  std::error_code error; // What cannot be looked at is said by whoever opens it.
  if (!std::filesystem::exists(flags.modelPath, error) && !error)
    return invalidInput(flags.modelPath,
                        ": found no such file or folder, expected a checkpoint or an artifact");
  return std::filesystem::is_regular_file(flags.modelPath, error) ? planCompiled(flags)
                                                                  : planCheckpoint(flags);
}

void addPlanCommand(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App *command = app.add_subcommand(
      "plan", "Say what to expect before compiling or replanning: will it fit, how fast, and why");
  command
      ->add_option("model", flags->modelPath,
                   "Directory with config.json (the weights need not be there), or an artifact, "
                   "whose plans moec replan would write")
      ->required()
      ->type_name("CKPT|OUT.moe");
  command
      ->add_option("--memory", flags->budgets,
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
      ->add_option("--preset", flags->presets,
                   "Of an artifact: how to plan, as moec replan takes it (default: auto)")
      ->expected(1, 8)
      ->check(someWord())
      ->type_name("{auto|load-on-demand|lru|edgemoe|fate}...");
  command
      ->add_option("--calibration", flags->profilePath,
                   "Of an artifact: calibration profile to take the trace from (default: the "
                   "artifact's own)")
      ->check(someWord())
      ->type_name("PROFILE");
  command
      ->add_option("--context", flags->context,
                   "Tokens of context to plan for (default: as moec compile, or what the artifact "
                   "was planned for)")
      ->check(within(1, uint32_t(1) << 30))
      ->type_name("N");
  command
      ->add_option("--picture", flags->picturePath,
                   "Of an artifact: draw the first plan into this file; needs a device and a trace")
      ->check(someWord())
      ->type_name("PLAN.svg");
  command->add_flag("--json", flags->isJson, "As JSON, for programs");
  command->callback([flags, &chosen] { chosen = [flags] { return runPlan(*flags); }; });
}

} // namespace moec::cli
