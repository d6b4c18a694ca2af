// The sections of a report on one run, in the report's order. Internal to the report.
#pragma once

#include "compiler/report/Diagnosis.h"
#include "compiler/report/ReportFacts.h"
#include "compiler/report/WhatIf.h"

namespace moec {

/// What sections are made from. Borrowed.
struct RunFindings {
  const RunSimulation &simulation;
  const WhatIf &whatIf;
  const Diagnosis &diagnosis;
};

Section verdictSection(const RunFindings &findings);
Section changeSection(const RunFindings &findings);
Section accuracySection(const RunFindings &findings);
moert::Result<Section> expertSection(const RunFindings &findings);
/// `experts`: expertSection() of the same findings.
moert::Result<Section> cacheSection(const RunFindings &findings, const Section &experts);
Section prefetchSection(const RunFindings &findings);
Section timeSection(const RunFindings &findings);
Section provenanceSection(const RunFindings &findings);

/// For two runs, whose sections have the same ids.
Section compareSection(const RunRecord &runA, const std::vector<Section> &a, const RunRecord &runB,
                       const std::vector<Section> &b);

/// Distinguishes the sections of a second run from those of the first: ids and titles.
void addPrefix(std::vector<Section> &sections, const std::string &prefix, const std::string &title);

/// Sources that many numbers share.
Source measuredIn(const char *keys);
Source simulatedFor(const RunSimulation &simulation);

} // namespace moec
