#include "compiler/accuracy/MeasuredSearch.h"

#include "compiler/accuracy/SearchCosts.h"
#include "compiler/plan/WidthSolvers.h"

#include <algorithm>
#include <filesystem>
#include <utility>

using namespace moert;

namespace moec {

static WidthSearchInput searchInput(const AccurateCompileRequest &request,
                                    const SearchMaterial &material,
                                    const PooledArtifacts &artifacts, ArtifactTimes *times) {
  WidthSearchInput input = artifacts.items().input();
  input.target = request.acceptanceTarget().scale();
  // A first estimate: this divergence in nats loses about this fraction of the points, or of
  // another metric. The chain of tests covers divergences from a fraction of it to a multiple.
  if (material.items || !material.windows.hasBound())
    input.firstThreshold = input.target;
  input.solver = request.solver;
  if (times) {
    constexpr uint32_t kMeasurementsForTimes = 8; // For two knapsacks instead of one.
    input.times = &times->times();
    input.maxMeasurements += kMeasurementsForTimes;
  }
  if (request.solver == SolverChoice::kUniform || request.solver == SolverChoice::kEdgeMoe)
    input.others = uniformAssignment(input.problem, 8);
  return input;
}

/// What a usual search evaluates, for the remaining time.
static SearchWork expectedWork(const AccurateCompileRequest &request, const WidthSearchInput &input,
                               const SearchMaterial &material) {
  const uint64_t probes =
      input.groups.empty() ? 0 : 2 + *std::max_element(input.groups.begin(), input.groups.end());
  const auto knownOf = [](const WindowSet &set) { return set.knownNats() ? set.windows : 0; };
  return usualWork(request, material.windows.searchWindows(), material.windows.probe.windows,
                   material.acceptedCount(), probes,
                   {knownOf(material.windows.rest), knownOf(material.windows.acceptance)});
}

static JudgeOptions judgeOptions(const AccurateCompileRequest &request,
                                 const SearchMaterial &material, const AcceptanceLevels &levels,
                                 const Session &session) {
  JudgeOptions options;
  options.metric = request.metric;
  options.target = request.acceptanceTarget();
  options.levels = levels;
  if (material.items) {
    options.itemSet = &*material.items->set;
    options.items = material.items->kept;
  }
  options.images = material.images;
  options.windowTokens = request.amounts.windowTokens;
  options.threads = request.threads;
  options.fingerprint = material.fingerprint;
  options.stop = session.stop;
  return options;
}

/// Without budgets: a candidate with many bits may exceed the requested one.
static Status emitCandidate(const PooledArtifacts &artifacts, const WidthAssignment &assignment,
                            const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(EmitPlan plan, artifacts.plan(assignment, {}));
  EmitOptions options;
  options.outputPath = path;
  return artifacts.emit(std::move(plan), assignment, options);
}

Result<MeasuredSearch> searchMeasured(const AccurateCompileRequest &request,
                                      const SearchMaterial &material,
                                      const AcceptanceLevels &levels,
                                      const PooledArtifacts &artifacts, ArtifactTimes *times,
                                      const std::string &referencePath,
                                      const std::string &directory, const Session &session) {
  const WidthSearchInput input = searchInput(request, material, artifacts, times);
  SearchProgress progress(session.progress, material.items ? "windows and items" : "windows",
                          expectedWork(request, input, material));
  JudgeOptions options = judgeOptions(request, material, levels, session);
  options.directory = directory;
  options.referencePath = referencePath;
  options.onBegin = [&](SearchPass pass) { progress.beginPass(pass); };
  options.onWindows = [&](uint64_t done) { progress.advanceTo(done); };
  options.onKnown = [&](SearchPass pass, uint64_t windows) { progress.restorePass(pass, windows); };
  MOERT_ASSIGN_OR_RETURN(
      std::unique_ptr<ArtifactJudge> judge,
      ArtifactJudge::create(options, material.windows,
                            [&](const WidthAssignment &assignment, const std::string &path) {
                              return emitCandidate(artifacts, assignment, path);
                            }));
  // The reference is as large as the checkpoint, and no test reads it from here on. A resumed
  // compile makes it again.
  std::error_code ignored;
  if (!judge->needsReference())
    std::filesystem::remove(referencePath, ignored);
  MeasuredSearch search;
  MOERT_ASSIGN_OR_RETURN(search.outcome, searchWidths(input, *judge));
  if (search.outcome.isMet && request.checkedEstimates > 0) {
    MOERT_ASSIGN_OR_RETURN(search.estimates,
                           checkEstimates(search.outcome.estimates, input.isProbedDirectly,
                                          request.checkedEstimates, *judge));
  }
  search.acceptance = judge->acceptance(search.outcome.best.assignment);
  search.windowsEvaluated = judge->windowsEvaluated();
  return search;
}

} // namespace moec
