// `moec report`: computes a report of a run, or of two runs side by side.
#pragma once

#include "compiler/report/ReportFacts.h"
#include "compiler/report/ReportInputs.h"

namespace moec {

/// Reads the files, simulates, and computes all sections.
moert::Result<Report> makeReport(const ReportRequest &request, const Session &session);

/// The same for inputs that were read.
moert::Result<Report> makeReport(const ReportInputs &inputs, const Session &session);

/// As text in so many columns, at least 40; tables of details are left out and named. Only words
/// that are longer, such as paths, make longer lines.
std::string reportText(const Report &report, size_t columns = 80);

/// One object with every number, its unit and its origin (docs/reports.md).
std::string reportJson(const Report &report);

/// As one HTML page that needs no other file and loads none.
std::string reportPage(const Report &report);

/// The runs' steps as trace events for perfetto and chrome://tracing.
std::string reportTrace(const ReportInputs &inputs);

} // namespace moec
