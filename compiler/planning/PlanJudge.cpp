#include "compiler/planning/PlanJudge.h"

#include "compiler/search/FreeUnits.h"
#include "compiler/search/RecordedLogits.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/evaluation/EngineSource.h"
#include "runtime/evaluation/LossBound.h"
#include "runtime/evaluation/LossQuantile.h"
#include "runtime/evaluation/UnitSpread.h"
#include "runtime/format/Writer.h"

#include <filesystem>
#include <utility>

using namespace moert;

namespace moec {

/// A document's windows, a packed window, or an item: what a bound needs kMinimumBoundUnits of.
static uint64_t unitsIn(std::span<const EvaluatedText> texts) {
  uint64_t count = 0;
  for (const EvaluatedText &text : texts)
    count += text.units.empty() ? text.samples : unitCountOfWindows(text.units);
  return count;
}

/// A loss relates to the checkpoint: weights of the reference that were quantized would hide a part
/// of it.
static Status checkIsSource(const Model &reference) {
  for (const auto &[key, value] : reference.artifact().provenance)
    if ((key == "bits" || key == "resident_bits" || key == "head_bits" || key == "kv_bits") &&
        value != "source")
      return invalidInput("--reference '", reference.path(), "': found ", key, " ", value,
                          ", expected the checkpoint compiled with --bits source and "
                          "--resident-bits source");
  return {};
}

/// Differs for artifacts with other weights, tokenizers, programs or plans: the prefix has the
/// checksums of all sections.
static Result<uint64_t> checksumOf(Artifact artifact) {
  MOERT_ASSIGN_OR_RETURN(const SealedArtifact sealed, sealArtifact(artifact));
  return checksum64(std::as_bytes(std::span(sealed.prefix)));
}

void PlanJudge::leaveOut(const SeenText &seen) {
  const uint64_t all = units();
  std::vector<const TextWindows *> windows;
  for (const TextWindows &text : set->windowsOfTexts())
    windows.push_back(&text);
  std::vector<std::vector<uint32_t>> kept(windows.size());
  for (const UnitPlace &unit : freeUnits(windows, seen))
    for (size_t w = 0; w < unit.windows; ++w)
      kept[unit.text].push_back(static_cast<uint32_t>(unit.firstWindow + w));
  for (size_t file = 0; file < kept.size(); ++file)
    set->keepOnly(file, kept[file]);
  hasLeftOut = units() < all;
  if (hasLeftOut)
    sayTo(session, strCat("accepting on ", units(), " of ", all,
                          " units: calibration or the search has read parts of the others, or "
                          "they are copies"));
}

Status PlanJudge::open(const SeenText *seen) {
  MOERT_ASSIGN_OR_RETURN(reference, Model::open(inputs.referencePath));
  MOERT_RETURN_IF_ERROR(checkIsSource(*reference));
  MOERT_ASSIGN_OR_RETURN(judged, Model::open(inputs.artifactPath));
  Result<EvaluationSet> read = EvaluationSet::read(
      inputs.texts, *judged, [this](const std::string &note) { sayTo(session, note); });
  MOERT_RETURN_IF_ERROR(read.status());
  set.emplace(std::move(read).value());
  if (seen)
    leaveOut(*seen);
  MOERT_ASSIGN_OR_RETURN(const uint64_t ofReference, checksumOf(reference->artifact()));
  std::vector<uint64_t> identity = {ofReference, inputs.texts.windows.windowTokens,
                                    inputs.texts.windows.scoreFrom};
  const std::string &separator = inputs.texts.documentSeparator;
  identity.push_back(checksum64(std::as_bytes(std::span(separator))));
  identity.push_back(judged->artifact().tokenizerChecksum);
  for (const EvaluatedText &text : texts()) {
    identity.push_back(text.hash);
    identity.insert(identity.end(), text.units.begin(), text.units.end());
  }
  for (const TextWindows &text : set->windowsOfTexts())
    identity.push_back(checksum64(std::as_bytes(std::span(text.tokens))));
  samples = checksum64(std::as_bytes(std::span(identity)));
  rowsStep = strCat("logits-", formatChecksum(samples));
  log.emplace(strCat(inputs.work.path(), "/plans-", formatChecksum(samples)), samples);
  return {};
}

uint64_t PlanJudge::units() const {
  return unitsIn(texts());
}

Status PlanJudge::checkUnits() const {
  if (units() >= kMinimumBoundUnits)
    return {};
  return invalidInput("--eval-text has ", units(), " units",
                      hasLeftOut ? " that calibration and the search have not read" : "",
                      ", and a bound of the loss takes ", kMinimumBoundUnits,
                      " documents or more, not longer ones");
}

Result<uint64_t> PlanJudge::artifactWith(const Plan &plan) const {
  Artifact planned = judged->artifact();
  planned.plans = {plan};
  return checksumOf(std::move(planned));
}

uint64_t PlanJudge::checkpoint() const {
  const Artifact &artifact = judged->artifact();
  for (const auto &[key, value] : artifact.provenance)
    if (key == "checkpoint_sample")
      return parseChecksum(value).value_or(artifact.residentChecksum);
  return artifact.residentChecksum;
}

namespace {

struct Loaded {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<EngineSource> source;
};

} // namespace

static Result<Loaded> load(const Model &model, const EngineOptions &options) {
  Loaded loaded;
  MOERT_ASSIGN_OR_RETURN(MemoryAccount account, accountMemory(model, options));
  MOERT_ASSIGN_OR_RETURN(loaded.engine, Engine::load(model, options, account));
  MOERT_ASSIGN_OR_RETURN(loaded.source, EngineSource::create(*loaded.engine));
  return loaded;
}

Result<PlanLoss> PlanJudge::measure(const Plan &plan, double confidence, const std::string &which) {
  MOERT_RETURN_IF_ERROR(checkUnits());
  MOERT_ASSIGN_OR_RETURN(const Scores scores, scoresOf(plan, which));
  return lossOfScores(scores, confidence);
}

Result<SampleScore> PlanJudge::scoreOf(const Plan &plan) {
  MOERT_ASSIGN_OR_RETURN(const Scores scores, scoresOf(plan, ""));
  return sumOf(scores);
}

Result<PlanJudge::Scores> PlanJudge::evaluate(LogitsSource &artifact, LogitsSource *beside,
                                              const std::string &what) const {
  Progress *progress = session.progress;
  if (progress)
    progress->beginCounting(what, "windows", 1, set->samples(), 0);
  Result<Scores> scores = set->evaluate(
      artifact, beside,
      [progress](uint64_t done, uint64_t) {
        if (progress)
          progress->advanceTo(done);
      },
      session.stop);
  if (progress)
    progress->end();
  return scores;
}

EngineOptions PlanJudge::engineOptions(const Model &model) const {
  EngineOptions options = set->engineOptions({});
  options.threads = inputs.threads;
  options.takesFewerThreads = true;
  // Each token reads many of the experts of the token before again. Reads go through the page cache
  // if it can hold the file.
  const bool isHeld = model.artifact().fileBytes <= systemMemory().room.bytes / 2;
  options.io = isHeld ? IoBackend::kBuffered : IoBackend::kAuto;
  return options;
}

/// Fails before the reference decodes, not after hours.
static Status checkSpace(const std::string &directory, uint64_t bytes) {
  std::error_code error;
  const std::filesystem::space_info disk = std::filesystem::space(directory, error);
  if (error || disk.available >= bytes)
    return {};
  return failed(directory, ": ", formatBytes(bytes), " needed for the reference's logits, ",
                formatBytes(disk.available), " free on the disk");
}

Status PlanJudge::recordReference() {
  const std::string key = "whole";
  if (inputs.work.isMarked(rowsStep, key))
    return {};
  const uint64_t rowCount = set->samples() * inputs.texts.windows.windowTokens;
  MOERT_RETURN_IF_ERROR(checkSpace(
      inputs.work.path(), rowCount * reference->artifact().model.vocabularySize * sizeof(float)));
  EngineOptions options = engineOptions(*reference);
  options.extraBytes = set->memoryBytes(false);
  Result<Loaded> loaded = load(*reference, options);
  if (!loaded.isOk())
    return loaded.status().withContext("reference");
  MOERT_ASSIGN_OR_RETURN(
      const std::unique_ptr<RecordingLogits> rows,
      RecordingLogits::create(*loaded->source, rowsPath(), inputs.texts.windows.windowTokens));
  MOERT_RETURN_IF_ERROR(evaluate(*rows, nullptr, "decoding with the reference").status());
  return inputs.work.mark(rowsStep, key);
}

Result<PlanJudge::Scores> PlanJudge::decode(const Plan &plan, const std::string &which) {
  MOERT_RETURN_IF_ERROR(recordReference());
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                         Model::openWith(inputs.artifactPath, {plan}));
  EngineOptions options = engineOptions(*model);
  options.plan = 0;
  options.extraBytes = set->memoryBytes(true, plan.miss.changesPrompts() ? plan.prefillChunk : 1);
  MOERT_ASSIGN_OR_RETURN(const Loaded candidate, load(*model, options));
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<ReplayedLogits> rows,
                         ReplayedLogits::open(rowsPath(),
                                              reference->artifact().model.vocabularySize,
                                              inputs.texts.windows.windowTokens));
  return evaluate(*candidate.source, rows.get(),
                  strCat(plan.miss.changesPrompts() ? "reading with " : "decoding with ", plan.name,
                         ", ", missRuleText(plan.miss), which));
}

Result<PlanJudge::Scores> PlanJudge::scoresOf(const Plan &plan, const std::string &which) {
  MOERT_ASSIGN_OR_RETURN(const uint64_t key, artifactWith(plan));
  if (std::optional<Scores> known = log->findScores(key, set->samples()))
    return std::move(*known);
  MOERT_ASSIGN_OR_RETURN(Scores scores, decode(plan, which));
  MOERT_RETURN_IF_ERROR(log->addScores(key, scores));
  return scores;
}

Result<PlanLoss> PlanJudge::lossOfScores(std::span<const SampleScore> scores,
                                         double confidence) const {
  const LossMetric metric = inputs.texts.metric;
  const SampleScore sum = sumOf(scores);
  const std::optional<double> loss = lossOf(sum, metric);
  const std::optional<double> bound = lossUpperBound(scores, metric, confidence);
  if (!loss || !bound)
    return invalidInput("the loss on --eval-text is undefined: the reference's is zero");
  PlanLoss measured;
  measured.metric = metricName(metric);
  measured.loss = *loss;
  measured.upperBound = *bound;
  measured.confidence = confidence;
  measured.klNats = valueOf(sum, LossMetric::kKl).value_or(0);
  measured.topDisagreement = 1 - valueOf(sum, LossMetric::kTop1).value_or(1);
  measured.units = unitCount(scores);
  measured.windows = scores.size();
  measured.windowTokens = inputs.texts.windows.windowTokens;
  measured.quantile =
      inputs.target.stated(lossQuantileBound(scores, metric, inputs.target.fraction(), confidence));
  for (size_t i = 0; i < texts().size(); ++i) {
    const EvaluatedText &text = texts()[i];
    measured.documents += text.documents;
    measured.texts.push_back(
        {std::filesystem::path(inputs.texts.files[i]).filename().string(), text.hash, text.bytes});
  }
  return measured;
}

} // namespace moec
