#include "compiler/planning/PlanJudge.h"

#include "runtime/evaluation/EngineSource.h"
#include "runtime/evaluation/LossBound.h"
#include "runtime/evaluation/UnitSpread.h"

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
    if ((key == "bits" || key == "resident_bits" || key == "head_bits") && value != "source")
      return invalidInput("--reference '", reference.path(), "': found ", key, " ", value,
                          ", expected the checkpoint compiled with --bits source and "
                          "--resident-bits source");
  return {};
}

Status PlanJudge::open() {
  MOERT_ASSIGN_OR_RETURN(reference, Model::open(inputs.referencePath));
  MOERT_RETURN_IF_ERROR(checkIsSource(*reference));
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> artifact, Model::open(inputs.artifactPath));
  tokenizerOwner = std::move(artifact);
  Result<EvaluationSet> read = EvaluationSet::read(
      inputs.texts, *tokenizerOwner, [this](const std::string &note) { sayTo(session, note); });
  MOERT_RETURN_IF_ERROR(read.status());
  set.emplace(std::move(read).value());
  return {};
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

Result<PlanLoss> PlanJudge::measure(const Plan &plan, double confidence) const {
  if (const uint64_t units = unitsIn(texts()); units < kMinimumBoundUnits)
    return invalidInput("--eval-text has ", units, " units, and a bound of the loss takes ",
                        kMinimumBoundUnits, " documents or more, not longer ones");
  MOERT_ASSIGN_OR_RETURN(const std::vector<SampleScore> scores, decode(plan));
  return lossOfScores(scores, confidence);
}

Result<SampleScore> PlanJudge::scoreOf(const Plan &plan) const {
  MOERT_ASSIGN_OR_RETURN(const std::vector<SampleScore> scores, decode(plan));
  return sumOf(scores);
}

Result<std::vector<SampleScore>> PlanJudge::decode(const Plan &plan) const {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                         Model::openWith(inputs.artifactPath, {plan}));
  EngineOptions options = set->engineOptions({});
  options.threads = inputs.threads;
  options.takesFewerThreads = true;
  EngineOptions ofReference = options;
  ofReference.sharesProcess = true;
  options.plan = 0;
  options.extraBytes = set->memoryBytes(true);
  MOERT_ASSIGN_OR_RETURN(const Loaded candidate, load(*model, options));
  Result<Loaded> beside = load(*reference, ofReference);
  if (!beside.isOk())
    return beside.status().withContext("reference");
  Progress *progress = session.progress;
  if (progress)
    progress->beginCounting(strCat("decoding with ", plan.name, ", ", missRuleText(plan.miss)),
                            "windows", 1, set->samples(), 0);
  auto scores = set->evaluate(
      *candidate.source, beside->source.get(),
      [progress](uint64_t done, uint64_t) {
        if (progress)
          progress->advanceTo(done);
      },
      session.stop);
  if (progress)
    progress->end();
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
  for (size_t i = 0; i < texts().size(); ++i) {
    const EvaluatedText &text = texts()[i];
    measured.documents += text.documents;
    measured.texts.push_back(
        {std::filesystem::path(inputs.texts.files[i]).filename().string(), text.hash, text.bytes});
  }
  return measured;
}

} // namespace moec
