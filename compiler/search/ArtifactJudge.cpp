#include "compiler/search/ArtifactJudge.h"

#include "runtime/base/Checksum.h"
#include "runtime/evaluation/LossBound.h"
#include "runtime/evaluation/UnitSpread.h"

#include <algorithm>
#include <cmath>
#include <unistd.h>

using namespace moert;

namespace moec {

// A bound that is not there, or a loss beyond all reason, is worse than any target.
constexpr double kHopeless = 1e9;

EvaluationOptions ArtifactJudge::evaluationOptions(const EngineCrew &crew,
                                                   bool hasReference) const {
  constexpr uint64_t kRowsBytes = 32 << 20; // Of the reference, held at a time.
  EvaluationOptions evaluation;
  evaluation.windowTokens = evaluation.stepTokens = options.windowTokens;
  const uint64_t rowBytes =
      crew.members.front().source->vocabularySize() * sizeof(float) * crew.members.size();
  if (hasReference)
    evaluation.stepTokens =
        uint32_t(std::clamp<uint64_t>(kRowsBytes / rowBytes, 1, options.windowTokens));
  return evaluation;
}

Result<EngineCrew> ArtifactJudge::load(const std::string &path) const {
  MOERT_ASSIGN_OR_RETURN(std::vector<EngineCrew> crews,
                         loadCrews({&path, 1}, options.windowTokens, options.threads));
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
  judge->log = MeasurementLog::open(options.directory + "/measurements", options.fingerprint);
  MOERT_RETURN_IF_ERROR(judge->recordReference().withContext("reference"));
  return judge;
}

Result<ArtifactJudge::Scores> ArtifactJudge::playReference(const EngineCrew &reference,
                                                           const WindowSet &set,
                                                           const std::string &recordedAt) {
  std::vector<std::unique_ptr<RecordingLogits>> recordings;
  std::vector<WindowLane> lanes;
  for (const EngineCrew::Member &member : reference.members) {
    WindowLane &lane = lanes.emplace_back();
    lane.artifact = member.source.get();
    if (recordedAt.empty())
      continue;
    MOERT_ASSIGN_OR_RETURN(
        auto recording, RecordingLogits::create(*member.source, recordedAt, options.windowTokens));
    lane.artifact = lane.rows = recording.get();
    recordings.push_back(std::move(recording));
  }
  return playWindows(set, evaluationOptions(reference, false), lanes, progress(), options.stop);
}

Status ArtifactJudge::recordReference() {
  if (options.onBegin)
    options.onBegin("reference");
  MOERT_ASSIGN_OR_RETURN(EngineCrew crew, load(options.referencePath));
  vocabularySize = crew.members.front().source->vocabularySize();
  played += windows.probe.windows + windows.rest.windows;
  MOERT_RETURN_IF_ERROR(playReference(crew, windows.probe, rowsPath("probe")).status());
  if (needsAllRows())
    return playReference(crew, windows.rest, rowsPath("rest")).status();
  MOERT_ASSIGN_OR_RETURN(referenceRest, playReference(crew, windows.rest, ""));
  return {};
}

Result<ArtifactJudge::Scores> ArtifactJudge::playCandidate(const EngineCrew &candidate,
                                                           const WindowSet &set,
                                                           const std::string &recordedAt) {
  std::vector<std::unique_ptr<PlayedLogits>> recordings;
  std::vector<WindowLane> lanes;
  for (const EngineCrew::Member &member : candidate.members) {
    WindowLane &lane = lanes.emplace_back();
    lane.artifact = member.source.get();
    if (recordedAt.empty())
      continue;
    MOERT_ASSIGN_OR_RETURN(
        auto recording,
        PlayedLogits::open(recordedAt, member.source->vocabularySize(), options.windowTokens));
    lane.reference = lane.rows = recording.get();
    recordings.push_back(std::move(recording));
  }
  return playWindows(set, evaluationOptions(candidate, !recordedAt.empty()), lanes, progress(),
                     options.stop);
}

Result<ArtifactJudge::Scores> ArtifactJudge::scoreSearch(const EngineCrew &candidate) {
  MOERT_ASSIGN_OR_RETURN(Scores probe, playCandidate(candidate, windows.probe, rowsPath("probe")));
  MOERT_ASSIGN_OR_RETURN(
      Scores rest, playCandidate(candidate, windows.rest, needsAllRows() ? rowsPath("rest") : ""));
  for (size_t i = 0; i < referenceRest.size(); ++i)
    rest[i].referenceLossNats = referenceRest[i].lossNats;
  probe.insert(probe.end(), rest.begin(), rest.end());
  // The windows of a unit have to be consecutive.
  std::stable_sort(probe.begin(), probe.end(), [](const SampleScore &a, const SampleScore &b) {
    return std::pair(a.text, a.unit) < std::pair(b.text, b.unit);
  });
  // Long documents alone are too few units for an error of the search's losses, which only have to
  // put candidates in order: there, windows stand in for them.
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

void ArtifactJudge::tellKnown(const char *what, uint64_t count) const {
  if (options.onBegin)
    options.onBegin(what);
  if (options.onWindows)
    options.onWindows(count);
}

Result<double> ArtifactJudge::probe(const WidthAssignment &assignment) {
  played += windows.probe.windows;
  const uint64_t key = keyOf("probe", assignment);
  if (const std::vector<double> *known = log.find(key); known && known->size() == 1) {
    tellKnown("probe", windows.probe.windows);
    return (*known)[0];
  }
  if (options.onBegin)
    options.onBegin("probe");
  const std::string path = options.directory + "/candidate.moe";
  MOERT_RETURN_IF_ERROR(makeArtifact(assignment, path));
  MOERT_ASSIGN_OR_RETURN(EngineCrew crew, load(path));
  MOERT_ASSIGN_OR_RETURN(Scores scores, playCandidate(crew, windows.probe, rowsPath("probe")));
  ::unlink(path.c_str());
  double kl = sumOf(scores).kl();
  MOERT_RETURN_IF_ERROR(log.add(key, {kl}));
  return kl;
}

// Acceptance measures other text, and its bound has to hold beside those of other looks. Both
// errors are known from this one's: the loss may move by the errors of both texts (one standard
// error of the difference is allowed for, which five in six stay within), and the bound is that
// of one of three looks, 2.13 standard errors above its loss.
double ArtifactJudge::predictedBound(double loss, double bound) const {
  constexpr double kErrorsAt95 = 1.645, kErrorsOfALook = 2.13;
  double error = std::max(bound - loss, 0.0) / kErrorsAt95;
  double ratio = std::sqrt(double(windows.probe.windows + windows.rest.windows) /
                           double(windows.acceptance.windows));
  return loss + error * (kErrorsOfALook * ratio + std::sqrt(1 + ratio * ratio));
}

Result<Measurement> ArtifactJudge::measure(const WidthAssignment &assignment) {
  played += windows.probe.windows + windows.rest.windows;
  const uint64_t key = keyOf("measure", assignment);
  if (const std::vector<double> *known = log.find(key); known && known->size() == 3) {
    tellKnown("candidate", windows.probe.windows + windows.rest.windows);
    return Measurement{(*known)[0], (*known)[1], (*known)[2]};
  }
  if (options.onBegin)
    options.onBegin("candidate");
  const std::string path = options.directory + "/candidate.moe";
  MOERT_RETURN_IF_ERROR(makeArtifact(assignment, path));
  MOERT_ASSIGN_OR_RETURN(EngineCrew crew, load(path));
  MOERT_ASSIGN_OR_RETURN(Scores scores, scoreSearch(crew));
  ::unlink(path.c_str());
  Measurement measurement;
  measurement.loss = std::min(lossOf(sumOf(scores), searchMetric()).value_or(kHopeless), kHopeless);
  double bound = lossUpperBound(scores, searchMetric()).value_or(kHopeless);
  // Of items nothing can be predicted: looks say what a divergence is worth.
  if (!options.itemSet)
    bound = predictedBound(measurement.loss, bound);
  measurement.upperBound = std::min(bound, kHopeless);
  SampleScore withRows;
  for (const SampleScore &score : scores)
    if (score.klNats > 0)
      withRows.add(score);
  measurement.klNats = withRows.tokens > 0 ? withRows.kl() : 0;
  MOERT_RETURN_IF_ERROR(
      log.add(key, {measurement.loss, measurement.upperBound, measurement.klNats}));
  return measurement;
}

// Of the set so many windows at a time, in its order; each part has all the texts.
static std::vector<WindowSet> partsOf(const WindowSet &set, uint32_t windowTokens,
                                      uint64_t windowsOfPart) {
  std::vector<WindowSet> parts;
  for (size_t text = 0; text < set.ids.size(); ++text)
    for (size_t w = 0; w < set.units[text].size(); ++w) {
      if (parts.empty() || parts.back().windows == windowsOfPart) {
        parts.emplace_back().ids.resize(set.ids.size());
        parts.back().units.resize(set.ids.size());
      }
      const auto window = std::span(set.ids[text]).subspan(w * windowTokens, windowTokens);
      std::vector<int32_t> &ids = parts.back().ids[text];
      ids.insert(ids.end(), window.begin(), window.end());
      parts.back().units[text].push_back(set.units[text][w]);
      ++parts.back().windows;
    }
  return parts;
}

Status ArtifactJudge::recordAcceptance(const WindowSet &part, const std::string &rows) {
  if (options.onBegin)
    options.onBegin("acceptance");
  MOERT_ASSIGN_OR_RETURN(EngineCrew crew, load(options.referencePath));
  return playReference(crew, part, rows).status();
}

// One engine after the other has all the memory that there is: the reference's rows wait in a file
// meanwhile, for as many windows as fit.
Result<ArtifactJudge::Scores> ArtifactJudge::scoreWindows(const std::string &path) {
  const std::string rows = rowsPath("acceptance");
  const uint64_t windowBytes = uint64_t(options.windowTokens) * vocabularySize * sizeof(float);
  Scores scores;
  for (const WindowSet &part :
       partsOf(windows.acceptance, options.windowTokens,
               std::max<uint64_t>(options.acceptanceRowsBytes / windowBytes, 1))) {
    MOERT_RETURN_IF_ERROR(recordAcceptance(part, rows));
    if (options.onBegin)
      options.onBegin("acceptance");
    MOERT_ASSIGN_OR_RETURN(EngineCrew crew, load(path));
    MOERT_ASSIGN_OR_RETURN(Scores scored, playCandidate(crew, part, rows));
    scores.insert(scores.end(), scored.begin(), scored.end());
  }
  ::unlink(rows.c_str());
  return scores;
}

// Items are few and short, so candidate and reference play them side by side.
Result<ArtifactJudge::Scores> ArtifactJudge::scoreItems(const std::string &path) {
  const std::string paths[] = {path, options.referencePath};
  MOERT_ASSIGN_OR_RETURN(
      std::vector<EngineCrew> crews,
      loadCrews(paths, options.itemSet->engineOptions({}).contextTokens, options.threads));
  std::vector<WindowLane> lanes;
  for (size_t member = 0; member < crews[0].members.size(); ++member)
    lanes.push_back(
        {crews[0].members[member].source.get(), crews[1].members[member].source.get(), nullptr});
  if (options.onBegin)
    options.onBegin("acceptance");
  return playItems(*options.itemSet, options.items, lanes, progress(), options.stop);
}

Result<Measurement> ArtifactJudge::accept(const WidthAssignment &assignment) {
  played += 2 * (options.itemSet ? options.items.size() : windows.acceptance.windows);
  const std::string path = options.directory + "/candidate.moe";
  MOERT_RETURN_IF_ERROR(makeArtifact(assignment, path));
  MOERT_ASSIGN_OR_RETURN(Scores scores, options.itemSet ? scoreItems(path) : scoreWindows(path));
  ::unlink(path.c_str());
  SampleScore sum = sumOf(scores);
  // Of items no more than everything can be lost.
  const double worst = options.itemSet ? 1 : kHopeless;
  Measurement measurement;
  measurement.loss = std::min(lossOf(sum, options.metric).value_or(worst), worst);
  measurement.upperBound = lossUpperBound(scores, options.metric, kAcceptanceConfidence).value_or(worst);
  measurement.klNats = sum.kl();
  if (options.itemSet)
    measurement.leastBound = leastBound(scores, kAcceptanceConfidence);
  accepted[assignment] = std::move(scores);
  return measurement;
}

} // namespace moec
