#include "compiler/search/ArtifactJudge.h"

#include "moert/Engine.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/engine/EngineSource.h"

#include <algorithm>
#include <cmath>
#include <unistd.h>

using namespace moert;

namespace moec {

namespace {

/// An artifact with its engine, in the order in which they have to end.
struct Loaded {
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<EngineSource> source;
};

} // namespace

// A bound that is not there, or a loss beyond all reason, is worse than any target.
constexpr double kHopeless = 1e9;

/// What an engine may take: alone everything, two side by side half of it each.
enum class MemoryShare { kAll, kFirstHalf, kSecondHalf };

static Result<Loaded> load(const std::string &path, const JudgeOptions &options,
                           MemoryShare share) {
  constexpr uint32_t kLogitsRows = 16; // The head's weights are read once for so many rows.
  Loaded loaded;
  MOERT_ASSIGN_OR_RETURN(loaded.model, Model::open(path));
  EngineOptions engine;
  engine.contextTokens = options.windowTokens;
  engine.logitsRows = std::min(kLogitsRows, options.windowTokens);
  engine.threads = options.threads;
  if (share != MemoryShare::kAll)
    engine.memory = BudgetSize{availableMemoryBytes() / 2, {}};
  // The first engine has in its account what the process holds already.
  engine.sharesProcess = share == MemoryShare::kSecondHalf;
  if (!engine.sharesProcess)
    engine.extraBytes = privateMemoryBytes();
  MOERT_ASSIGN_OR_RETURN(MemoryAccount account, accountMemory(*loaded.model, engine));
  MOERT_ASSIGN_OR_RETURN(loaded.engine, Engine::load(*loaded.model, engine, account));
  MOERT_ASSIGN_OR_RETURN(loaded.source, EngineSource::create(*loaded.engine));
  return loaded;
}

static EvaluationOptions evaluationOptions(const JudgeOptions &options, bool hasReference,
                                           uint32_t vocabularySize) {
  constexpr uint64_t kRowsBytes = 32 << 20; // Of the reference, held at a time.
  EvaluationOptions evaluation;
  evaluation.windowTokens = evaluation.stepTokens = options.windowTokens;
  uint64_t rows = kRowsBytes / (uint64_t(vocabularySize) * sizeof(float));
  if (hasReference)
    evaluation.stepTokens = uint32_t(std::clamp<uint64_t>(rows, 1, options.windowTokens));
  return evaluation;
}

static EvaluationProgress progressOf(const JudgeOptions &options) {
  if (!options.onWindows)
    return {};
  return [&options](uint64_t done, uint64_t) { options.onWindows(done); };
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

Status ArtifactJudge::recordReference() {
  if (options.onBegin)
    options.onBegin("reference");
  MOERT_ASSIGN_OR_RETURN(Loaded reference, load(options.referencePath, options, MemoryShare::kAll));
  const uint32_t vocabulary = reference.source->vocabularySize();
  EvaluationOptions evaluation = evaluationOptions(options, false, vocabulary);
  auto record = [&](const WindowSet &set, const std::string &path) -> Result<Scores> {
    MOERT_ASSIGN_OR_RETURN(auto recording, RecordingLogits::create(*reference.source, path));
    return evaluate(set.ids, evaluation, *recording, nullptr, progressOf(options), options.stop);
  };
  MOERT_RETURN_IF_ERROR(record(windows.probe, rowsPath("probe")).status());
  MOERT_ASSIGN_OR_RETURN(probeRows,
                         PlayedLogits::open(rowsPath("probe"), vocabulary, options.windowTokens));
  played += windows.probe.windows + windows.rest.windows;
  if (needsAllRows()) {
    MOERT_RETURN_IF_ERROR(record(windows.rest, rowsPath("rest")).status());
    MOERT_ASSIGN_OR_RETURN(restRows,
                           PlayedLogits::open(rowsPath("rest"), vocabulary, options.windowTokens));
    return {};
  }
  MOERT_ASSIGN_OR_RETURN(referenceRest, evaluate(windows.rest.ids, evaluation, *reference.source,
                                                 nullptr, progressOf(options), options.stop));
  return {};
}

Result<ArtifactJudge::Scores> ArtifactJudge::play(const std::string &path, const WindowSet &set,
                                                  LogitsSource *reference) {
  MOERT_ASSIGN_OR_RETURN(Loaded candidate, load(path, options, MemoryShare::kAll));
  EvaluationOptions evaluation =
      evaluationOptions(options, reference != nullptr, candidate.source->vocabularySize());
  return evaluate(set.ids, evaluation, *candidate.source, reference, progressOf(options),
                  options.stop);
}

Result<ArtifactJudge::Scores> ArtifactJudge::scoreSearch(const std::string &path) {
  probeRows->rewind();
  MOERT_ASSIGN_OR_RETURN(Scores probe, play(path, windows.probe, probeRows.get()));
  if (restRows)
    restRows->rewind();
  MOERT_ASSIGN_OR_RETURN(Scores rest, play(path, windows.rest, restRows.get()));
  for (size_t i = 0; i < referenceRest.size(); ++i)
    rest[i].referenceLossNats = referenceRest[i].lossNats;
  probe.insert(probe.end(), rest.begin(), rest.end());
  // Resampling is stratified by text, whose windows are consecutive.
  std::stable_sort(probe.begin(), probe.end(),
                   [](const SampleScore &a, const SampleScore &b) { return a.text < b.text; });
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
  probeRows->rewind();
  MOERT_ASSIGN_OR_RETURN(Scores scores, play(path, windows.probe, probeRows.get()));
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
  MOERT_ASSIGN_OR_RETURN(Scores scores, scoreSearch(path));
  ::unlink(path.c_str());
  Measurement measurement;
  measurement.loss = std::min(lossOf(sumOf(scores), options.metric).value_or(kHopeless), kHopeless);
  double bound = lossUpperBound95(scores, options.metric).value_or(kHopeless);
  measurement.upperBound = std::min(predictedBound(measurement.loss, bound), kHopeless);
  SampleScore withRows;
  for (const SampleScore &score : scores)
    if (score.klNats > 0)
      withRows.add(score);
  measurement.klNats = withRows.tokens > 0 ? withRows.kl() : 0;
  MOERT_RETURN_IF_ERROR(
      log.add(key, {measurement.loss, measurement.upperBound, measurement.klNats}));
  return measurement;
}

Result<Measurement> ArtifactJudge::accept(const WidthAssignment &assignment) {
  played += 2 * windows.acceptance.windows;
  if (options.onBegin)
    options.onBegin("acceptance");
  const std::string path = options.directory + "/candidate.moe";
  MOERT_RETURN_IF_ERROR(makeArtifact(assignment, path));
  MOERT_ASSIGN_OR_RETURN(Loaded reference,
                         load(options.referencePath, options, MemoryShare::kFirstHalf));
  MOERT_ASSIGN_OR_RETURN(Loaded candidate, load(path, options, MemoryShare::kSecondHalf));
  EvaluationOptions evaluation =
      evaluationOptions(options, true, candidate.source->vocabularySize());
  MOERT_ASSIGN_OR_RETURN(Scores scores,
                         evaluate(windows.acceptance.ids, evaluation, *candidate.source,
                                  reference.source.get(), progressOf(options), options.stop));
  ::unlink(path.c_str());
  SampleScore sum = sumOf(scores);
  Measurement measurement;
  measurement.loss = std::min(lossOf(sum, options.metric).value_or(kHopeless), kHopeless);
  measurement.upperBound = lossUpperBound95(scores, options.metric, kMaxLooks).value_or(kHopeless);
  measurement.klNats = sum.kl();
  accepted[assignment] = std::move(scores);
  return measurement;
}

} // namespace moec
