#include "compiler/report/MakeReport.h"

#include "compiler/report/ReportSections.h"

#include <filesystem>

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
  sections.push_back(accuracySection(inputs));
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
  report.title = strCat("Run of ", std::filesystem::path(inputs.artifactPath).filename().string());
  for (const RunRecord &run : inputs.runs) {
    Result<std::vector<Section>> sections = sectionsOf(inputs, run, session);
    if (!sections.isOk())
      return sections.status();
    report.sections = std::move(sections).value();
  }
  return report;
}

Result<Report> makeReport(const ReportRequest &request, const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const ReportInputs inputs, readReportInputs(request));
  return makeReport(inputs, session);
}

} // namespace moec
