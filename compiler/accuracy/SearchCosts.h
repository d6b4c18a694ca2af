// The estimate that a calibrated compilation prints before it begins: its steps, and the time and
// disk that all of them take. Times follow from a short probe of this machine: some
// windows that the reference executes, and an expert that is quantized at every width.
#pragma once

#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/accuracy/CompileInputs.h"
#include "compiler/accuracy/SearchProgress.h"
#include "compiler/session/WholeProgress.h"
#include "compiler/session/WorkDirectory.h"

#include <string>
#include <vector>

namespace moec {

/// Where the artifact is written: before a quick loss is added to it, in the work directory.
std::string emittedPathOf(const AccurateCompileRequest &request);

/// The steps of a request in order, without times.
std::vector<PlannedStep> stepsOf(const AccurateCompileRequest &request);

/// What a usual search evaluates. known: windows of which the text has the reference's loss, of the
/// search and of the acceptance.
struct KnownWindows {
  uint64_t search = 0, accepted = 0;
};
SearchWork usualWork(const AccurateCompileRequest &request, uint64_t searchWindows,
                     uint64_t probeWindows, uint64_t acceptedCount, uint64_t probes,
                     const KnownWindows &known);

/// Probes the machine, plans the times of the steps after the reference, and reports what they
/// take.
moert::Status tellCosts(const AccurateCompileRequest &request, const CompileInputs &inputs,
                        const std::string &referencePath, const WorkDirectory &work,
                        WholeProgress &progress, const Session &session);

} // namespace moec
