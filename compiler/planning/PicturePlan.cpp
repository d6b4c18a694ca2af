#include "compiler/planning/PicturePlan.h"

#include "compiler/inspection/InspectSections.h"
#include "compiler/plan/MakePlans.h"
#include "compiler/plan/TimedReplay.h"
#include "compiler/profile/TracedRouting.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Size.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>

using namespace moert;

namespace moec {

static Status checkIsKnown(const PlannedArtifact &planned) {
  if (planned.artifact.moeLayers.empty() || planned.artifact.plans.empty())
    return invalidInput("a picture of a plan needs layers with experts and a plan of them");
  std::string missing;
  if (!planned.trace)
    missing = "a trace: give --calibration, or compile the artifact with --calibration-text";
  if (!planned.device)
    missing += strCat(missing.empty() ? "" : "; and ", "a device: give --device");
  return missing.empty() ? Status() : invalidInput("a picture of a plan needs ", missing);
}

//===-- Experts -------------------------------------------------------------------------------===//

namespace {

/// For one expert, or summed over several.
struct Demand {
  uint64_t wanted = 0, found = 0; // Decoded tokens that use it; those that find it resident.

  double foundFraction() const { return wanted == 0 ? 0 : double(found) / double(wanted); }
  Demand &operator+=(const Demand &other) {
    wanted += other.wanted;
    found += other.found;
    return *this;
  }
};

} // namespace

/// Counts the steps from `fromStep` on. The cache's content when a layer pass begins does not
/// depend on time.
static Result<std::vector<std::vector<Demand>>>
demandsOf(const PlanProblem &problem, const PlanSettings &settings, size_t fromStep) {
  const std::vector<RoutingPass> &passes = problem.trace->passes;
  const size_t firstPass = fromStep * problem.trace->layerExperts.size();
  std::vector<std::vector<Demand>> demands;
  for (uint32_t experts : problem.trace->layerExperts)
    demands.emplace_back(experts);
  MOERT_ASSIGN_OR_RETURN(CacheReplay replay, CacheReplay::create(replayCacheOf(problem, settings)));
  TracedMisses misses(settings.miss, problem.scores);
  uint64_t token = 0; // The first one of the layer pass.
  for (size_t p = 0; p < passes.size(); ++p) {
    const RoutingPass &pass = passes[p];
    if (pass.beginsPrompt)
      replay.beginPrompt();
    const PassDemand demand =
        misses.demandOf(replay.cache(), *problem.trace, pass, pass.layer, token);
    token += pass.layer + 1 == problem.trace->layerExperts.size() ? pass.tokens : 0;
    if (pass.tokens == 1 && p >= firstPass)
      for (uint32_t expert : demand.wanted) {
        Demand &of = demands[pass.layer][expert];
        ++of.wanted;
        of.found += replay.state().at(replay.state().idOf(pass.layer, expert)).isHeld();
      }
    replay.runPass(pass.layer, demand);
  }
  return demands;
}

static std::string prefetchText(const PlanSettings &settings, size_t layer) {
  const PrefetchRule rule =
      layer < settings.prefetches.size() ? settings.prefetches[layer] : PrefetchRule();
  if (rule.predictor == Predictor::kOff)
    return "none";
  return strCat(nameOf(rule.predictor), " ", uint32_t(rule.ahead), " ahead, ", rule.reads, " of ",
                rule.candidates);
}

static Demand sumOf(const std::vector<Demand> &demands) {
  Demand sum;
  for (const Demand &demand : demands)
    sum += demand;
  return sum;
}

static std::vector<PicturedExpert> expertsOf(const std::vector<Demand> &demands,
                                             std::span<const uint32_t> pinned, uint64_t tokens) {
  std::vector<PicturedExpert> experts;
  for (const Demand &demand : demands)
    experts.push_back({.wantedFraction = double(demand.wanted) / double(tokens),
                       .foundFraction = demand.foundFraction()});
  for (uint32_t expert : pinned)
    experts[expert].isPinned = true;
  std::stable_sort(experts.begin(), experts.end(),
                   [](const PicturedExpert &a, const PicturedExpert &b) {
                     return a.wantedFraction > b.wantedFraction;
                   });
  return experts;
}

/// How many experts of the mean size fit into `pages`.
static uint64_t expertsIn(uint64_t pages, uint64_t pagesOfAll, uint64_t experts) {
  return std::min(experts, pages * experts / pagesOfAll);
}

static void pictureExperts(const PlanProblem &problem, const PlanSettings &settings,
                           const std::vector<std::vector<Demand>> &demands, uint64_t tokens,
                           PlanPicture &picture) {
  const CacheShape shape = shapeOf(problem);
  const std::vector<uint32_t> &quotas = settings.allotment.quotaPages;
  const bool isShared = settings.rules.sharing == CacheSharing::kOnePool;
  uint64_t keptInAll = 0, expertsInAll = 0, pagesOfAll = 0;
  Demand all;
  for (size_t layer = 0; layer < demands.size(); ++layer) {
    const uint64_t experts = demands[layer].size();
    const uint64_t kept = expertsIn(quotas[layer], shape.layers[layer].allPages, experts);
    const Demand sum = sumOf(demands[layer]);
    PicturedLayer &row = picture.layers[layer];
    row.experts = expertsOf(demands[layer],
                            settings.pinned.empty() ? std::span<const uint32_t>()
                                                    : std::span(settings.pinned[layer]),
                            tokens);
    row.keptExperts = isShared ? 0 : static_cast<double>(kept);
    row.room = isShared ? "shared" : strCat(kept, " of ", experts);
    row.hitRate = sum.foundFraction();
    row.prefetches = prefetchText(settings, layer);
    keptInAll += kept;
    expertsInAll += experts;
    pagesOfAll += shape.layers[layer].allPages;
    all += sum;
  }
  if (isShared)
    keptInAll = expertsIn(std::accumulate(quotas.begin(), quotas.end(), uint64_t(0)), pagesOfAll,
                          expertsInAll);
  picture.roomOfAll = strCat(keptInAll, " of ", expertsInAll);
  picture.hitRateOfAll = all.foundFraction();
}

//===-- One token -----------------------------------------------------------------------------===//

/// Index of the first decoded token that takes the median time, among the decoded tokens.
static size_t medianToken(const TimedResult &result) {
  const double median = result.quantileNs(0.5);
  return static_cast<size_t>(std::find(result.tokenNs.begin(), result.tokenNs.end(), median) -
                             result.tokenNs.begin());
}

/// Index in the trace of a decoded token's first layer pass; tokens are counted from fromPass on.
static size_t passesOfToken(const RoutingTrace &trace, size_t fromPass, size_t token) {
  const size_t layers = trace.layerExperts.size();
  for (size_t pass = fromPass;; pass += layers)
    if (trace.passes[pass].tokens == 1 && token-- == 0)
      return pass;
}

static PicturedTurn turnOf(const TimedPass &pass, double tokenBeginNs, double beforeNs) {
  const CacheCounts &counts = pass.counts.cache;
  PicturedTurn turn;
  turn.beginMs = (beforeNs - tokenBeginNs) / 1e6;
  turn.routedMs = (pass.beginNs - tokenBeginNs) / 1e6;
  turn.endMs = (pass.endNs - tokenBeginNs) / 1e6;
  turn.waitMs = pass.counts.waitNs / 1e6;
  turn.held = static_cast<uint32_t>(counts.hits);
  turn.arrived = static_cast<uint32_t>(counts.ready - counts.hits);
  turn.late = static_cast<uint32_t>(counts.useful - turn.arrived);
  turn.asked = static_cast<uint32_t>(counts.misses - counts.useful);
  turn.unused = static_cast<uint32_t>(counts.cancelled);
  return turn;
}

/// Draws a token of the steps from `fromStep` on, whose layer passes the result has.
static void pictureToken(const PlanProblem &problem, const TimedResult &result, size_t fromStep,
                         PlanPicture &picture) {
  const size_t token = medianToken(result);
  const size_t uncountedPasses = fromStep * problem.trace->layerExperts.size();
  const size_t firstPass = passesOfToken(*problem.trace, uncountedPasses, token) - uncountedPasses;
  // The token begins with the work before its first layer's router.
  const double tokenNs = result.tokenNs[token];
  const size_t lastPass = firstPass + picture.layers.size() - 1;
  const double beginNs = result.passes[lastPass].endNs + problem.costs->after.of(1) - tokenNs;
  double beforeNs = beginNs, waitMs = 0, expertMs = 0;
  for (size_t layer = 0; layer < picture.layers.size(); ++layer) {
    const TimedPass &pass = result.passes[firstPass + layer];
    PicturedTurn &turn = picture.layers[layer].turn;
    turn = turnOf(pass, beginNs, beforeNs);
    beforeNs = pass.endNs;
    waitMs += turn.waitMs;
    expertMs += turn.endMs - turn.routedMs - turn.waitMs;
  }
  picture.tokenMs = tokenNs / 1e6;
  picture.tokenText = strCat(fixed(picture.tokenMs, 2), " ms, the median: ", fixed(expertMs, 2),
                             " experts, ", fixed(waitMs, 2), " waiting, ",
                             fixed(picture.tokenMs - expertMs - waitMs, 2), " other");
}

//===-- Words ---------------------------------------------------------------------------------===//

static std::string percent(double fraction) {
  return fixed(100 * fraction, 0) + "%";
}

static std::string sizeOf(double bytes) {
  return formatBytes(static_cast<uint64_t>(bytes));
}

static void pictureWords(const PlannedArtifact &planned, const Plan &plan,
                         const std::string &fileName, PlanPicture &picture) {
  const Forecast &forecast = *plan.forecast; // Made from a trace and a device.
  const std::string shortName = std::filesystem::path(fileName).filename().string();
  picture.title = strCat("Plan ", plan.name, " of ", shortName, ", preset ", plan.preset);
  const uint64_t pages =
      std::accumulate(plan.quotaPages.begin(), plan.quotaPages.end(), uint64_t(plan.stagingPages));
  picture.lines = {
      strCat("on ", planned.device->name, " (its numbers are ", worstText(forecast.origin), ")"),
      strCat(formatBytes(plan.budgetBytes), " of memory, ",
             formatBytes(pages * planned.artifact.pageBytes), " of it for experts: ",
             nameOf(plan.rules.sharing), ", eviction ", nameOf(plan.rules.eviction)),
      strCat("simulated on ", forecast.tokens, " of ", forecast.traceTokens,
             " traced tokens, held out from planning; room for ", plan.contextTokens,
             " tokens of context"),
      "Belady: the least that any cache of this size reads on these tokens, from the same start",
  };
  picture.figures = {
      {fixed(1e9 / forecast.tokenNs, 1), "tokens/s expected"},
      {fixed(1e9 / forecast.boundNs, 1), "tokens/s, upper bound"},
      {percent(forecast.hitRate), "hits"},
      {percent(forecast.readyRate), "resident in time"},
      {sizeOf(forecast.bytesPerToken), "read per token"},
      {sizeOf(forecast.leastBytesPerToken), "Belady's lower bound"},
  };
}

Result<PlanPicture> picturePlan(const PlannedArtifact &planned, const std::string &fileName) {
  MOERT_RETURN_IF_ERROR(checkIsKnown(planned));
  const Artifact &artifact = planned.artifact;
  const Plan &plan = artifact.plans.front();
  MOERT_ASSIGN_OR_RETURN(const KnownRouting routing,
                         routingOf(*planned.trace, planned.learned.paths, planned.facts));
  const PlanInputs inputs(planned.facts, routing, *planned.device);
  const PlanSettings settings = settingsOf(plan);
  const PlanProblem problem = inputs.forecastProblem(settings.allotment.totalPages());
  const size_t fromStep = routing.decidingSteps();
  MOERT_RETURN_IF_ERROR(check(problem));
  MOERT_ASSIGN_OR_RETURN(
      TimedResult result,
      replayInTime(problem, settings, {.fromStep = fromStep, .keepsPasses = true}));
  MOERT_ASSIGN_OR_RETURN(std::vector<std::vector<Demand>> demands,
                         demandsOf(problem, settings, fromStep));
  PlanPicture picture;
  for (const MoeLayer &layer : artifact.moeLayers)
    picture.layers.emplace_back().number = layer.layer;
  pictureExperts(problem, settings, demands, result.tokenNs.size(), picture);
  pictureToken(problem, result, fromStep, picture);
  pictureWords(planned, plan, fileName, picture);
  return picture;
}

Status writePlanPicture(const PlannedArtifact &planned, const std::string &fileName,
                        const std::string &outputPath) {
  MOERT_ASSIGN_OR_RETURN(PlanPicture picture, picturePlan(planned, fileName));
  const std::string drawn = drawPlan(picture);
  MOERT_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create(outputPath, drawn.size()));
  MOERT_RETURN_IF_ERROR(output.append(drawn));
  return output.commit();
}

} // namespace moec
