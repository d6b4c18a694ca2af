// moert eval: perplexity on texts, and the loss beside a reference.
#include "tools/console/Interrupt.h"
#include "tools/console/OutputStream.h"
#include "tools/console/ProgressLine.h"
#include "tools/moert/BudgetSplit.h"
#include "tools/moert/Command.h"
#include "tools/moert/EngineFlags.h"
#include "tools/moert/EvalReport.h"
#include "tools/moert/LoadedModel.h"

#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/engine/EngineSource.h"
#include "runtime/engine/EvaluationTexts.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

namespace moert::cli {

namespace {

constexpr uint32_t kMaxWindowTokens = 1 << 20;

struct EvalOptions {
  std::string artifact;
  std::vector<std::string> textFiles;
  std::optional<std::string> reference;
  LossMetric metric = LossMetric::kPerplexity;
  EvaluationOptions evaluation;
  bool asJson = false;
  EngineFlags engine;
};

/// The budgets of artifact and reference. Shares ("25%") are each one's own; a number of bytes is
/// for the process, so it is divided.
Status setBudgets(const EvalOptions &options, const Model &artifact, EngineOptions &artifactEngine,
                  const Model &reference, EngineOptions &referenceEngine) {
  if (options.engine.memory && options.engine.memory->expertShare)
    return {};
  const uint64_t total =
      options.engine.memory ? options.engine.memory->bytes : availableMemoryBytes();
  MOERT_ASSIGN_OR_RETURN(BudgetRange first, budgetRangeOf(artifact, artifactEngine));
  auto second = budgetRangeOf(reference, referenceEngine);
  if (!second.isOk())
    return second.status().withContext("reference");
  std::optional<BudgetShares> shares = splitBudget(total, first, *second);
  if (!shares)
    return invalidInput(total,
                        " bytes of memory are not enough for artifact and reference "
                        "together; the smallest budget that works is ",
                        first.smallestBytes + second->smallestBytes, " bytes");
  artifactEngine.memory = BudgetSize{shares->first, {}};
  referenceEngine.memory = BudgetSize{shares->second, {}};
  printError(strCat("memory of ", formatBytes(total), " is divided: ", formatBytes(shares->first),
                    " for the artifact, ", formatBytes(shares->second), " for the reference"));
  return {};
}

/// A loaded model as a source of logits, in the order in which they have to end.
struct Source {
  LoadedModel loaded;
  std::unique_ptr<EngineSource> source;
};

Result<Source> loadSource(std::unique_ptr<Model> model, const EngineOptions &engine,
                          const std::string &title) {
  Source source;
  MOERT_ASSIGN_OR_RETURN(source.loaded, loadModel(std::move(model), engine, title));
  MOERT_ASSIGN_OR_RETURN(source.source, EngineSource::create(*source.loaded.engine));
  return source;
}

Status checkOptions(const EvalOptions &options) {
  MOERT_RETURN_IF_ERROR(checkEvaluation(options.evaluation));
  if (options.metric != LossMetric::kPerplexity && !options.reference)
    return invalidInput("--metric ", metricName(options.metric),
                        " compares with a reference, expected --reference REF.moe");
  return {};
}

Result<std::vector<SampleScore>> measure(const EvalOptions &options, const EvaluationTexts &texts,
                                         Source &artifact, Source *reference) {
  const std::atomic<bool> &stop = catchInterrupts();
  ProgressLine progress("evaluating", [](uint64_t done, uint64_t total) {
    return strCat(done, " of ", total, " windows");
  });
  return evaluate(
      texts.ids, options.evaluation, *artifact.source,
      reference ? reference->source.get() : nullptr,
      [&progress](uint64_t done, uint64_t total) { progress.update(done, total); }, &stop);
}

Status evaluateTexts(EvalOptions options) {
  MOERT_RETURN_IF_ERROR(checkOptions(options));
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::open(options.artifact));
  std::unique_ptr<Model> referenceModel;
  if (options.reference) {
    MOERT_ASSIGN_OR_RETURN(referenceModel, Model::open(*options.reference));
  }
  MOERT_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, tokenizerOf(*model, "reading texts"));
  MOERT_ASSIGN_OR_RETURN(EvaluationTexts texts,
                         readEvaluationTexts(options.textFiles, *tokenizer,
                                             options.evaluation.windowTokens,
                                             [](const std::string &note) { printError(note); }));

  const uint32_t vocabulary = model->artifact().model.vocabularySize;
  options.evaluation.stepTokens =
      evaluationStepTokens(options.evaluation.windowTokens, vocabulary, referenceModel != nullptr);
  EngineOptions engine =
      evaluationEngineOptions(engineOptionsOf(options.engine), options.evaluation);
  EngineOptions referenceEngine = engine;
  engine.extraBytes = texts.bytes;
  if (referenceModel) {
    engine.extraBytes += evaluationRowsBytes(options.evaluation, vocabulary);
    MOERT_RETURN_IF_ERROR(setBudgets(options, *model, engine, *referenceModel, referenceEngine));
  }
  MOERT_ASSIGN_OR_RETURN(Source artifact, loadSource(std::move(model), engine, "memory"));
  std::optional<Source> reference;
  if (referenceModel) {
    auto loaded = loadSource(std::move(referenceModel), referenceEngine, "memory of the reference");
    if (!loaded.isOk())
      return loaded.status().withContext("reference");
    reference = std::move(loaded).value();
  }
  MOERT_ASSIGN_OR_RETURN(std::vector<SampleScore> windows,
                         measure(options, texts, artifact, reference ? &*reference : nullptr));
  EvalReport report = {options.metric, options.textFiles, windows, reference.has_value()};
  return writeOutput(
      options.asJson ? reportJson(report, artifact.loaded, reference ? &reference->loaded : nullptr)
                     : reportText(report));
}

void addMeasureOptions(CLI::App &command, EvalOptions &options) {
  const std::string group = "Measure";
  auto takeMetric = [&options](const std::string &text) {
    std::optional<LossMetric> metric = parseMetric(text);
    if (!metric)
      throw CLI::ValidationError("--metric",
                                 strCat("'", text, "', expected perplexity, kl or top1"));
    options.metric = *metric;
  };
  command.add_option("--text", options.textFiles, "Texts, UTF-8")
      ->type_name("FILE")
      ->required()
      ->group(group);
  command
      .add_option("--reference", options.reference,
                  "Compare with this artifact: loss, KL(reference || artifact) and top-1 agreement")
      ->type_name("REF.moe")
      ->group(group);
  command
      .add_option_function<std::string>("--metric", takeMetric,
                                        "What value and loss are: perplexity, kl (nats per token), "
                                        "top1 (agreement) (default: perplexity)")
      ->type_name("NAME")
      ->group(group);
  addCount(
      command, "--window", 2, kMaxWindowTokens,
      [&options](uint32_t n) { options.evaluation.windowTokens = n; },
      "Tokens of a window; a rest is left out (default: 512)")
      ->group(group);
  addCount(
      command, "--score-from", 1, kMaxWindowTokens,
      [&options](uint32_t n) { options.evaluation.scoreFrom = n; },
      "Score a window's tokens from this one on, counted from 0 (default: 1)")
      ->group(group);
}

} // namespace

void addEvalCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<EvalOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command = app.add_subcommand("eval", "Measure perplexity, alone or beside a reference");
  command->add_option("OUT.moe", options->artifact, "The compiled model")
      ->type_name("")
      ->required();
  addMeasureOptions(*command, *options);
  command->add_flag("--json", options->asJson, "Print one JSON object")->group("Output");
  addEngineFlags(*command, options->engine);
  command->footer(
      "Windows do not overlap; every token of a window but the first is scored. With a reference,\n"
      "--memory is for both: each gets its smallest budget, the rest in proportion to use.\n"
      "Example: moert eval qwen.moe --text wiki.txt code.txt --reference source.moe --json");
  command->callback([options, &chosen] { chosen = [options] { return evaluateTexts(*options); }; });
}

} // namespace moert::cli
