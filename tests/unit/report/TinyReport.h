// A report on a run of the tiny artifact.
#pragma once

#include "compiler/report/MakeReport.h"
#include "tests/unit/report/TinyRun.h"

#include <doctest/doctest.h>

namespace moec {

/// With calibration text that is routed round robin.
inline Report tinyReport(ReportInputs inputs) {
  inputs.trace = tinyTrace(roundRobin);
  auto report = makeReport(inputs, {});
  REQUIRE_MESSAGE(report.isOk(), report.status().message());
  return std::move(report).value();
}

} // namespace moec
