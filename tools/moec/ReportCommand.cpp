// moec report: what a run was limited by, and what would change it.
#include "compiler/report/MakeReport.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/OutputStream.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <memory>

using namespace moert;
using moert::cli::exampleFooter;
using moert::cli::writeOutput;

namespace moec::cli {

namespace {

struct ReportFlags {
  ReportRequest request;
  bool isJson = false;
};

} // namespace

static Status runReport(const ReportFlags &flags) {
  StepProgress progress;
  MOERT_ASSIGN_OR_RETURN(const Report report, makeReport(flags.request, sessionWith(progress)));
  return writeOutput(flags.isJson ? reportJson(report) : reportText(report));
}

void addReportCommand(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App *command = app.add_subcommand(
      "report", "Explain a run: what limits it, what its time is made of, and what to change");
  command->add_option("artifact", flags->request.artifactPath, "The artifact that was run")
      ->required()
      ->type_name("OUT.moe");
  command
      ->add_option("--run", flags->request.runPaths,
                   "Profile of the run, as moert run --profile writes it")
      ->required()
      ->expected(1)
      ->check(someWord())
      ->type_name("RUN.json");
  command
      ->add_option("--device", flags->request.devicePath,
                   "Device profile of the machine that ran it, as moert probe writes it (default: "
                   "none; the disk's latency is then assumed)")
      ->check(someWord())
      ->type_name("F.yaml");
  command->add_flag("--json", flags->isJson, "Print one JSON object")->group("Output");
  command->footer(exampleFooter("moec report qwen.moe --run run.json --device laptop.yaml"));
  command->callback([flags, &chosen] { chosen = [flags] { return runReport(*flags); }; });
}

} // namespace moec::cli
