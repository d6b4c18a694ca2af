#include "compiler/search/ArtifactJudge.h"

#include "compiler/search/TestForecast.h"
#include "runtime/base/Checksum.h"
#include "runtime/evaluation/LossBound.h"
#include "runtime/evaluation/LossQuantile.h"
#include "runtime/evaluation/UnitSpread.h"

#include <algorithm>
#include <cmath>
#include <unistd.h>

using namespace moert;

namespace moec {

Result<EngineCrew> ArtifactJudge::load(const std::string &path) const {
  MOERT_ASSIGN_OR_RETURN(std::vector<EngineCrew> crews,
                         loadCrews({&path, 1}, options.images ? 1 : options.windowTokens,
                                   options.threads, options.images));
  return std::move(crews.front());
}

EvaluationProgress ArtifactJudge::progress() const {
  if (!options.onWindows)
    return {};
  return [this](uint64_t done, uint64_t) { options.onWindows(done); };
}

std::string ArtifactJudge::rowsPath(const char *set) const {
  return strCat(options.directory, "/reference-", set, ".logits");
}

Result<std::unique_ptr<ArtifactJudge>> ArtifactJudge::create(const JudgeOptions &options,
                                                             const SearchWindows &windows,
                                                             MakeArtifact makeArtifact) {
  std::unique_ptr<ArtifactJudge> judge(
      new ArtifactJudge(options, windows, std::move(makeArtifact)));
  MOERT_RETURN_IF_ERROR(judge->recordReference().withContext("reference"));
  return judge;
}

namespace {

/// The lanes of a crew, with the rows that they record or replay.
struct KeptLanes {
  std::vector<std::unique_ptr<KeptRows>> rows; // Empty without a file.
  std::vector<WindowLane> lanes;
};

} // namespace

static Result<KeptLanes> lanesOf(const EngineCrew &crew, const std::string &path,
                                 KeptRows::Use use) {
  KeptLanes made;
  for (const EngineCrew::Member &member : crew.members) {
    WindowLane &lane = made.lanes.emplace_back();
    lane.artifact = member.source.get();
    if (path.empty())
      continue;
    MOERT_ASSIGN_OR_RETURN(auto rows, KeptRows::open(path, lane.artifact->vocabularySize(), use));
    lane.kept = made.rows.emplace_back(std::move(rows)).get();
  }
  return made;
}

Result<ArtifactJudge::Scores> ArtifactJudge::evaluateSet(const EngineCrew &crew,
                                                         const WindowSet &set,
                                                         const std::string &rowsAt,
                                                         KeptRows::Use use) {
  MOERT_ASSIGN_OR_RETURN(const KeptLanes lanes, lanesOf(crew, rowsAt, use));
  return evaluateWindows(set, evaluationOptionsOf(crew, options.windowTokens, false), lanes.lanes,
                         progress(), options.stop);
}

Status ArtifactJudge::recordReference() {
  if (options.onBegin)
    options.onBegin(SearchPass::kReference);
  MOERT_ASSIGN_OR_RETURN(EngineCrew crew, load(options.referencePath));
  executed += windows.probe.windows + windows.rest.windows;
  constexpr KeptRows::Use kRecord = KeptRows::Use::kRecord;
  MOERT_RETURN_IF_ERROR(evaluateSet(crew, windows.probe, rowsPath("probe"), kRecord).status());
  if (needsAllRows())
    return evaluateSet(crew, windows.rest, rowsPath("rest"), kRecord).status();
  MOERT_ASSIGN_OR_RETURN(referenceRest, evaluateSet(crew, windows.rest, "", kRecord));
  return {};
}

Result<ArtifactJudge::Scores> ArtifactJudge::scoreSearch(const EngineCrew &candidate) {
  constexpr KeptRows::Use kReplay = KeptRows::Use::kReplay;
  MOERT_ASSIGN_OR_RETURN(Scores probe,
                         evaluateSet(candidate, windows.probe, rowsPath("probe"), kReplay));
  MOERT_ASSIGN_OR_RETURN(Scores rest, evaluateSet(candidate, windows.rest,
                                                  needsAllRows() ? rowsPath("rest") : "", kReplay));
  for (size_t i = 0; i < referenceRest.size(); ++i)
    rest[i].referenceLossNats = referenceRest[i].lossNats;
  probe.insert(probe.end(), rest.begin(), rest.end());
  // The windows of a unit have to be consecutive.
  std::stable_sort(probe.begin(), probe.end(), [](const SampleScore &a, const SampleScore &b) {
    return std::pair(a.text, a.unit) < std::pair(b.text, b.unit);
  });
  // Long documents can be too few units for an error estimate of the search's losses. Those only
  // have to order the candidates, so windows then serve as units.
  if (unitCount(probe) < kMinimumBoundUnits)
    for (uint32_t i = 0; i < probe.size(); ++i)
      probe[i].unit = i;
  return probe;
}

static uint64_t keyOf(const char *what, const WidthAssignment &assignment) {
  ChecksumStream stream;
  stream.update(std::as_bytes(std::span(what, std::char_traits<char>::length(what))));
  stream.update(std::as_bytes(std::span(assignment)));
  return stream.digest();
}

void ArtifactJudge::tellKnown(SearchPass pass, uint64_t windowsOfPass) const {
  if (options.onKnown)
    options.onKnown(pass, windowsOfPass);
}

Result<double> ArtifactJudge::probe(const WidthAssignment &assignment) {
  executed += windows.probe.windows;
  const uint64_t key = keyOf("probe", assignment);
  if (const std::vector<double> *known = log.find(key); known && known->size() == 1) {
    tellKnown(SearchPass::kProbe, windows.probe.windows);
    return (*known)[0];
  }
  if (options.onBegin)
    options.onBegin(SearchPass::kProbe);
  const std::string path = options.directory + "/candidate.moe";
  MOERT_RETURN_IF_ERROR(makeArtifact(assignment, path));
  MOERT_ASSIGN_OR_RETURN(EngineCrew crew, load(path));
  MOERT_ASSIGN_OR_RETURN(
      Scores scores, evaluateSet(crew, windows.probe, rowsPath("probe"), KeptRows::Use::kReplay));
  ::unlink(path.c_str());
  double kl = sumOf(scores).kl();
  MOERT_RETURN_IF_ERROR(log.add(key, {kl}));
  return kl;
}

void ArtifactJudge::takeForecast(std::span<const SampleScore> scores, double bound,
                                 Measurement &measurement) const {
  const uint64_t units = windows.acceptance.unitCount();
  const double confidence = options.levels.confidence(AcceptanceChain::kMain);
  const TestForecast mean = forecastMeanBound(
      measurement.loss, bound, double(unitCount(scores)) / double(units), confidence);
  const TestForecast test =
      forecastTest(options.target, mean, scores, options.metric, units, confidence);
  measurement.predictedBound = std::min(test.bound, kMostLoss);
  measurement.spread = test.spread;
}

Measurement ArtifactJudge::measurementOf(std::span<const SampleScore> scores) const {
  const LossMetric metric = options.itemSet ? LossMetric::kKl : options.metric;
  const SampleScore sum = sumOf(scores);
  Measurement measurement;
  measurement.loss = std::min(lossOf(sum, metric).value_or(kMostLoss), kMostLoss);
  SampleScore withRows;
  for (const SampleScore &score : scores)
    if (score.klNats > 0)
      withRows.add(score);
  measurement.klNats = withRows.tokens > 0 ? withRows.kl() : 0;
  const std::optional<double> bound = lossUpperBound(scores, metric);
  measurement.hasBound = bound.has_value();
  // A divergence orders the candidates, and does not predict the loss that a test will find.
  if (ordersByDivergence)
    measurement.predictedBound = std::min(bound.value_or(sum.kl()), kMostLoss);
  else
    takeForecast(scores, bound.value_or(kMostLoss), measurement);
  return measurement;
}

Result<Measurement> ArtifactJudge::measure(const WidthAssignment &assignment) {
  const uint64_t samples = windows.probe.windows + windows.rest.windows;
  executed += samples;
  const uint64_t key = keyOf("measure", assignment);
  if (const std::optional<Scores> known = log.findScores(key, samples)) {
    tellKnown(SearchPass::kCandidate, samples);
    return measurementOf(*known);
  }
  if (options.onBegin)
    options.onBegin(SearchPass::kCandidate);
  const std::string path = options.directory + "/candidate.moe";
  MOERT_RETURN_IF_ERROR(makeArtifact(assignment, path));
  MOERT_ASSIGN_OR_RETURN(EngineCrew crew, load(path));
  MOERT_ASSIGN_OR_RETURN(const Scores scores, scoreSearch(crew));
  ::unlink(path.c_str());
  MOERT_RETURN_IF_ERROR(log.addScores(key, scores));
  return measurementOf(scores);
}

Result<ArtifactJudge::Scores> ArtifactJudge::scoreWindows(const std::string &path) {
  executed += 2 * windows.acceptance.windows;
  return evaluateBeside(path, options.referencePath, windows.acceptance, options.windowTokens,
                        options.threads, progress(), options.stop);
}

Result<ArtifactJudge::Scores> ArtifactJudge::scoreItems(const std::string &path) {
  const std::string paths[] = {path, options.referencePath};
  MOERT_ASSIGN_OR_RETURN(std::vector<EngineCrew> crews,
                         loadCrews(paths, options.itemSet->engineOptions({}).contextTokens,
                                   options.threads, options.itemSet->imagesRead()));
  executed += 2 * options.items.size();
  return evaluateItems(*options.itemSet, options.items, lanesBeside(crews), progress(),
                       options.stop);
}

Result<TestResult> ArtifactJudge::accept(const WidthAssignment &assignment, AcceptanceChain chain) {
  if (options.onBegin)
    options.onBegin(SearchPass::kAcceptance);
  const std::string path = options.directory + "/candidate.moe";
  MOERT_RETURN_IF_ERROR(makeArtifact(assignment, path));
  AcceptanceScores &found = accepted[assignment];
  MOERT_ASSIGN_OR_RETURN(found.samples, options.itemSet ? scoreItems(path) : scoreWindows(path));
  ::unlink(path.c_str());
  const double worst = options.itemSet ? 1 : kMostLoss; // At most all points can be lost.
  found.confidence = options.levels.confidence(chain);
  found.loss = std::min(lossOf(sumOf(found.samples), options.metric).value_or(worst), worst);
  found.upperBound =
      lossUpperBound(found.samples, options.metric, found.confidence).value_or(worst);
  found.quantileBound =
      lossQuantileBound(found.samples, options.metric, options.target.fraction(), found.confidence);
  if (options.target.isMetBy(found.upperBound, found.quantileBound))
    return TestResult::kPassed;
  const bool isOutOfReach =
      options.itemSet && leastBound(found.samples, found.confidence) > options.target.scale();
  return isOutOfReach ? TestResult::kOutOfReach : TestResult::kFailed;
}

} // namespace moec
