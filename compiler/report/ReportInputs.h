// The inputs of a report: an artifact with its calibration results, a device, runs.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "compiler/plan/ModelFacts.h"
#include "compiler/planning/LearnedSections.h"
#include "compiler/profile/TraceSection.h"
#include "compiler/report/RunRecord.h"
#include "compiler/session/Session.h"
#include "runtime/format/Artifact.h"

#include <optional>
#include <string>
#include <vector>

namespace moec {

struct ReportRequest {
  std::string artifactPath;
  std::vector<std::string> runPaths; // One, or two to compare.
  std::string devicePath;            // Empty: no device profile.
};

struct ReportInputs {
  std::string artifactPath;
  moert::Artifact artifact;
  ModelFacts facts;
  LearnedSections learned;
  std::optional<PlanTrace> trace; // Absent: the artifact was compiled without calibration text.
  std::optional<DeviceProfile> device;
  std::string devicePath; // As the request has it.
  std::vector<RunRecord> runs;
};

/// Refuses a run of other weights, or with a plan that the artifact does not hold.
moert::Result<ReportInputs> readReportInputs(const ReportRequest &request);

/// The plan of the artifact that a run used.
const moert::Plan &planOf(const ReportInputs &inputs, const RunRecord &run);

} // namespace moec
