// moec plan: a forecast for a model before it is compiled, or for an artifact under other plans.
#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"
#include "compiler/planning/Outlook.h"
#include "compiler/planning/PicturePlan.h"
#include "compiler/planning/Replan.h"
#include "profiles/DeviceFile.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/OutputStream.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

using namespace moert;
using moert::cli::exampleFooter;
using moert::cli::outputWidth;
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

/// For which command a percentage holds: others need other memory beside the same experts.
static std::string percentText(std::span<const std::string> budgets, uint32_t contextTokens) {
  const auto isRelative = [](const std::string &budget) {
    const Result<Size> size = parseSize(budget);
    return size.isOk() && size->fraction.has_value();
  };
  const auto relative = std::ranges::find_if(budgets, isRelative);
  if (relative == budgets.end())
    return "";
  return "\n" + paragraph(strCat(*relative, " is what moert run needs with ", contextTokens,
                                 " tokens of context. moert chat and moert serve need more beside "
                                 "the same experts, for a longer context, and serve for its "
                                 "sequences and requests. Each prints the sum."),
                          "", outputWidth());
}

//===-- A checkpoint --------------------------------------------------------------------------===//

/// Refuses the options that only apply to an artifact.
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
  return writeOutput(flags.isJson ? outlookJson(outlook, request)
                                  : outlookText(outlook, request, outputWidth()) +
                                        percentText(flags.budgets, outlook.contextTokens));
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
  return writeOutput(
      flags.isJson ? plansJson(planned.artifact, flags.modelPath)
                   : describePlans(planned.artifact) +
                         percentText(flags.budgets, planned.artifact.plans.front().contextTokens));
}

static Status runPlan(const PlanFlags &flags) {
  std::error_code error; // Errors of stat() are reported later, when the file is opened.
  if (!std::filesystem::exists(flags.modelPath, error) && !error)
    return invalidInput(flags.modelPath,
                        ": found no such file or folder, expected a checkpoint or an artifact");
  return isCompiled(flags.modelPath) ? planCompiled(flags) : planCheckpoint(flags);
}

void addPlanCommand(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App *command = app.add_subcommand(
      "plan", "Forecast before compiling or replanning: what fits, how fast it is, and why");
  command
      ->add_option(
          "model", flags->modelPath,
          "A checkpoint, whose folder needs config.json but no weights; or an artifact, for "
          "the plans that moec replan would write")
      ->required()
      ->type_name("CKPT|OUT.moe");
  addBudgets(*command, flags->budgets, "to forecast")->required();
  command
      ->add_option("--device", flags->devicePath,
                   "Device profile for the times, as moert probe writes it (default: none, and no "
                   "times)")
      ->check(someWord())
      ->type_name("F.yaml");
  command
      ->add_option("--context", flags->context,
                   "Tokens of context to plan for (default: as moec compile, or those of the "
                   "artifact's plans)")
      ->check(within(1, uint32_t(1) << 30))
      ->type_name("N");
  setGroup(*command, "Plans", {"--memory", "--device", "--context"});
  command->add_option("--preset", flags->presets, "How to plan, as in moec replan (default: auto)")
      ->expected(1, 8)
      ->check(someWord())
      ->type_name("NAME");
  command
      ->add_option("--calibration", flags->profilePath,
                   "Calibration profile whose trace is used (default: the artifact's own)")
      ->check(someWord())
      ->type_name("PROFILE");
  command
      ->add_option("--picture", flags->picturePath,
                   "Draw the first plan into this file; needs a device and a trace")
      ->check(someWord())
      ->type_name("PLAN.svg");
  setGroup(*command, "For artifacts only", {"--preset", "--calibration", "--picture"});
  command->add_flag("--json", flags->isJson, "Print one JSON object")->group("Output");
  command->footer(exampleFooter("moec plan ./qwen --memory 6GiB 12GiB --device laptop.yaml"));
  command->callback([flags, &chosen] { chosen = [flags] { return runPlan(*flags); }; });
}

} // namespace moec::cli
