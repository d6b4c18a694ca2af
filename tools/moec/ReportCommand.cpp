// moec report: what a run was limited by, and what would change it.
#include "compiler/report/MakeReport.h"
#include "runtime/base/OutputFile.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/OutputStream.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <memory>

using namespace moert;
using moert::cli::exampleFooter;
using moert::cli::outputWidth;
using moert::cli::writeOutput;

namespace moec::cli {

namespace {

struct ReportFlags {
  ReportRequest request;
  std::string pagePath, tracePath;
  bool isJson = false;
};

} // namespace

static Status writeFile(const std::string &path, const std::string &text, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create(path, text.size()));
  MOERT_RETURN_IF_ERROR(output.append(text));
  MOERT_RETURN_IF_ERROR(output.commit());
  session.say(strCat("wrote ", path));
  return {};
}

static Status checkOutputs(const ReportFlags &flags) {
  std::vector<std::string> inputs = flags.request.runPaths;
  inputs.push_back(flags.request.artifactPath);
  inputs.push_back(flags.request.devicePath);
  if (!flags.pagePath.empty())
    MOERT_RETURN_IF_ERROR(checkReplacesNone(flags.pagePath, inputs));
  if (!flags.tracePath.empty() && flags.tracePath == flags.pagePath)
    return invalidInput("--trace and --output are both '", flags.tracePath,
                        "', expected two names");
  inputs.push_back(flags.pagePath);
  return flags.tracePath.empty() ? Status() : checkReplacesNone(flags.tracePath, inputs);
}

static Status runReport(const ReportFlags &flags) {
  MOERT_RETURN_IF_ERROR(checkOutputs(flags));
  StepProgress progress;
  const Session session = sessionWith(progress);
  MOERT_ASSIGN_OR_RETURN(const ReportInputs inputs, readReportInputs(flags.request));
  if (!flags.tracePath.empty())
    MOERT_RETURN_IF_ERROR(writeFile(flags.tracePath, reportTrace(inputs), session));
  const bool hasOtherOutput = !flags.pagePath.empty() || !flags.tracePath.empty();
  if (flags.pagePath.empty() && !flags.isJson && hasOtherOutput)
    return {};
  MOERT_ASSIGN_OR_RETURN(const Report report, makeReport(inputs, session));
  if (!flags.pagePath.empty())
    MOERT_RETURN_IF_ERROR(writeFile(flags.pagePath, reportPage(report), session));
  if (flags.isJson)
    return writeOutput(reportJson(report));
  return hasOtherOutput ? Status() : writeOutput(reportText(report, outputWidth()));
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
                   "Profile of the run, as moert run --profile writes it; two of them are compared")
      ->required()
      ->expected(1, 2)
      ->check(someWord())
      ->type_name("RUN.json");
  command
      ->add_option("--device", flags->request.devicePath,
                   "Device profile of the machine that ran it, as moert probe writes it (default: "
                   "none; the disk's latency is then assumed)")
      ->check(someWord())
      ->type_name("F.yaml");
  setGroup(*command, "Run", {"--run", "--device"});
  command
      ->add_option("-o,--output", flags->pagePath,
                   "Write a page with pictures, which needs no other file, instead of text")
      ->check(someWord())
      ->type_name("REPORT.html");
  command
      ->add_option("--trace", flags->tracePath,
                   "Write the steps as trace events for perfetto or chrome://tracing")
      ->check(someWord())
      ->type_name("TRACE.json");
  command->add_flag("--json", flags->isJson, "Print one JSON object");
  setGroup(*command, "Output", {"--output", "--trace", "--json"});
  command->footer(
      exampleFooter("moec report qwen.moe --run run.json --device laptop.yaml -o report.html"));
  command->callback([flags, &chosen] { chosen = [flags] { return runReport(*flags); }; });
}

} // namespace moec::cli
