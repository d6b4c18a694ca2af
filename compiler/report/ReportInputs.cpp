#include "compiler/report/ReportInputs.h"

#include "compiler/emit/ArtifactFacts.h"
#include "profiles/DeviceFile.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/Excerpt.h"
#include "runtime/engine/Footprint.h"
#include "runtime/format/Reader.h"
#include "runtime/format/WeightsChecksum.h"

#include <algorithm>

using namespace moert;

namespace moec {

static const Plan *findPlan(const Artifact &artifact, const RunRecord &run) {
  const auto found = std::ranges::find_if(artifact.plans, [&](const Plan &plan) {
    return plan.name == run.facts.plan && plan.preset == run.facts.preset;
  });
  return found == artifact.plans.end() ? nullptr : &*found;
}

const Plan &planOf(const ReportInputs &inputs, const RunRecord &run) {
  return *findPlan(inputs.artifact, run); // Checked by readReportInputs().
}

static Status checkRoutes(const Artifact &artifact, const RunRecord &run) {
  if (run.chosen.size() != artifact.moeLayers.size() && run.routedTokens > 0)
    return invalidInput(run.path, ": found routes of ", run.chosen.size(),
                        " MoE layers, expected those of the artifact's ",
                        artifact.moeLayers.size());
  for (size_t i = 0; i < run.chosen.size(); ++i) {
    const MoeLayer &layer = artifact.moeLayers[i];
    if (run.chosen[i].size() / layer.topK != run.routedTokens ||
        run.chosen[i].size() % layer.topK != 0)
      return invalidInput(run.path, ": found ", run.chosen[i].size(), " choices in MoE layer ", i,
                          ", expected ", layer.topK, " for each of ", run.routedTokens, " tokens");
    const auto isUnknown = [&](uint32_t expert) { return expert >= layer.experts.size(); };
    if (std::ranges::any_of(run.chosen[i], isUnknown) ||
        std::ranges::any_of(run.candidates[i].candidates, isUnknown, &PrefetchCandidate::expert))
      return invalidInput(run.path, ": found an expert in MoE layer ", i, " beyond its ",
                          layer.experts.size());
  }
  return {};
}

static Status checkFits(const ReportInputs &inputs, const RunRecord &run) {
  const Artifact &artifact = inputs.artifact;
  const uint64_t weights = weightsChecksum(artifact);
  if (run.facts.weightsChecksum != weights || run.layers != artifact.model.layers)
    return invalidInput(run.path, ": found a run of ", excerpt(run.facts.artifact),
                        " with the weights ", formatChecksum(run.facts.weightsChecksum),
                        ", expected a run of ", inputs.artifactPath, " with the weights ",
                        formatChecksum(weights));
  if (!findPlan(artifact, run)) {
    std::string names;
    for (const Plan &plan : artifact.plans)
      names += strCat(names.empty() ? "" : ", ", plan.name, " by ", plan.preset);
    return invalidInput(run.path, ": found a run with the plan '", excerpt(run.facts.plan), "' by ",
                        excerpt(run.facts.preset), ", expected one of ", inputs.artifactPath, ": ",
                        names);
  }
  if (run.decode.steps == 0)
    return invalidInput(run.path, ": found no decode step, as the run ended with ",
                        run.facts.generatedTokens, " generated token",
                        run.facts.generatedTokens == 1 ? "" : "s", " (", excerpt(run.facts.end),
                        "), expected at least 2: run it again with -n 64",
                        run.facts.end == "eos" ? " --ignore-eos" : "");
  return checkRoutes(artifact, run);
}

Result<ReportInputs> readReportInputs(const ReportRequest &request) {
  ReportInputs inputs;
  inputs.artifactPath = request.artifactPath;
  inputs.devicePath = request.devicePath;
  MOERT_ASSIGN_OR_RETURN(FileSource source, FileSource::open(request.artifactPath));
  MOERT_ASSIGN_OR_RETURN(inputs.artifact, readArtifact(source));
  if (inputs.artifact.moeLayers.empty() || inputs.artifact.plans.empty())
    return invalidInput(request.artifactPath,
                        ": found no layers with routed experts, expected a model that has some");
  inputs.facts = factsOf(inputs.artifact, footprintOf(inputs.artifact));
  MOERT_ASSIGN_OR_RETURN(inputs.learned, readLearnedSections(source, inputs.artifact));
  if (!inputs.learned.trace.empty()) {
    Result<PlanTrace> trace = readTraceOf(inputs.artifact, inputs.learned.trace);
    if (!trace.isOk())
      return trace.status().withContext(request.artifactPath);
    inputs.trace = std::move(trace).value();
  }
  if (!request.devicePath.empty()) {
    MOERT_ASSIGN_OR_RETURN(inputs.device, readDeviceFile(request.devicePath));
  }
  for (const std::string &path : request.runPaths) {
    MOERT_ASSIGN_OR_RETURN(RunRecord run, readRunRecord(path));
    MOERT_RETURN_IF_ERROR(checkFits(inputs, run));
    inputs.runs.push_back(std::move(run));
  }
  return inputs;
}

} // namespace moec
