#include "compiler/report/MakeReport.h"

#include "compiler/report/ReportSections.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

using namespace moert;

namespace moec {

static Result<std::vector<Section>> sectionsOf(const ReportInputs &inputs, const RunRecord &run,
                                               const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<RunSimulation> simulation,
                         RunSimulation::create(inputs, run));
  MOERT_ASSIGN_OR_RETURN(const WhatIf whatIf, askWhatIf(*simulation, session));
  MOERT_ASSIGN_OR_RETURN(const Diagnosis diagnosis, diagnose(*simulation, whatIf));
  const RunFindings findings{*simulation, whatIf, diagnosis};
  std::vector<Section> sections;
  sections.push_back(verdictSection(findings));
  sections.push_back(changeSection(findings));
  sections.push_back(accuracySection(findings));
  MOERT_ASSIGN_OR_RETURN(Section experts, expertSection(findings));
  MOERT_ASSIGN_OR_RETURN(Section cache, cacheSection(findings, experts));
  sections.push_back(std::move(experts));
  sections.push_back(std::move(cache));
  sections.push_back(prefetchSection(findings));
  sections.push_back(timeSection(findings));
  sections.push_back(provenanceSection(findings));
  return sections;
}

Result<Report> makeReport(const ReportInputs &inputs, const Session &session) {
  Report report;
  const std::string name = std::filesystem::path(inputs.artifactPath).filename().string();
  report.title = strCat(inputs.runs.size() == 1 ? "Run of " : "Two runs of ", name);
  std::vector<std::vector<Section>> runs;
  for (const RunRecord &run : inputs.runs) {
    MOERT_ASSIGN_OR_RETURN(std::vector<Section> sections, sectionsOf(inputs, run, session));
    runs.push_back(std::move(sections));
  }
  if (runs.size() == 2) {
    report.sections.push_back(compareSection(inputs.runs[0], runs[0], inputs.runs[1], runs[1]));
    addPrefix(runs[0], "a.", "A: ");
    addPrefix(runs[1], "b.", "B: ");
  }
  for (std::vector<Section> &sections : runs)
    std::ranges::move(sections, std::back_inserter(report.sections));
  return report;
}

Result<Report> makeReport(const ReportRequest &request, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const ReportInputs inputs, readReportInputs(request));
  return makeReport(inputs, session);
}

} // namespace moec
