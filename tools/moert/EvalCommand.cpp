// moert eval: accuracy on texts or items, and the loss relative to a reference.
#include "tools/console/HelpFormatter.h"
#include "tools/console/Interrupt.h"
#include "tools/console/OutputStream.h"
#include "tools/console/ProgressLine.h"
#include "tools/moert/BudgetSplit.h"
#include "tools/moert/Command.h"
#include "tools/moert/EngineFlags.h"
#include "tools/moert/EvalReport.h"
#include "tools/moert/LoadedModel.h"

#include "runtime/base/InputText.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/evaluation/EngineSource.h"
#include "runtime/evaluation/EvaluationSet.h"
#include "runtime/evaluation/RecordedReference.h"
#include "runtime/memory/MemoryRoom.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace moert::cli {

namespace {

constexpr uint32_t kMaxWindowTokens = 1 << 20, kMaxAnswerTokens = 1 << 20;

struct EvalOptions {
  std::string artifact;
  std::optional<std::string> reference;
  EvaluationRequest request;
  bool isMetricGiven = false, asJson = false;
  EngineFlags engine;
};

/// Sets the budgets of artifact and reference. A percentage ("25%") applies to each model; a number
/// of bytes is for the process and is divided.
Status setBudgets(const EvalOptions &options, const Model &artifact, EngineOptions &artifactEngine,
                  const Model &reference, EngineOptions &referenceEngine) {
  if (options.engine.memory && options.engine.memory->expertFraction)
    return {};
  if (options.engine.memory)
    MOERT_RETURN_IF_ERROR(checkBudgetLimit(*options.engine.memory, systemMemory()));
  const uint64_t total =
      options.engine.memory ? options.engine.memory->bytes : availableMemoryBytes();
  MOERT_ASSIGN_OR_RETURN(BudgetRange first, budgetRangeOf(artifact, artifactEngine));
  auto second = budgetRangeOf(reference, referenceEngine);
  if (!second.isOk())
    return second.status().withContext("reference");
  std::optional<BudgetParts> parts = splitBudget(total, first, *second);
  if (!parts)
    return invalidInput(formatExactBytes(total),
                        " of memory are not enough for artifact and reference "
                        "together; the smallest budget that works is ",
                        formatExactBytes(first.smallestBytes + second->smallestBytes));
  artifactEngine.memory = BudgetSize{parts->first, {}};
  referenceEngine.memory = BudgetSize{parts->second, {}};
  printError(strCat("memory of ", formatBytes(total), " is divided: ", formatBytes(parts->first),
                    " for the artifact, ", formatBytes(parts->second), " for the reference"));
  return {};
}

/// A loaded model as a source of logits. The source must be destroyed before the model.
struct Source {
  LoadedModel loaded;
  std::unique_ptr<EngineSource> source;
};

Result<Source> loadSource(std::unique_ptr<Model> model, const EngineOptions &engine,
                          const NoticeFlags &notices, const LoadWords &words,
                          const EvaluationSet &set) {
  Source source;
  MOERT_ASSIGN_OR_RETURN(source.loaded, loadModel(std::move(model), engine, notices, words));
  MOERT_ASSIGN_OR_RETURN(source.source,
                         EngineSource::create(*source.loaded.engine, set.imagesRead()));
  return source;
}

Status checkOptions(const EvalOptions &options) {
  const LossMetric metric = options.request.metric;
  if ((metric == LossMetric::kKl || metric == LossMetric::kTop1) && !options.reference)
    return invalidInput("--metric ", metricName(metric),
                        " compares with a reference, expected --reference REF.moe");
  return {};
}

Result<std::vector<SampleScore>> measure(const EvaluationSet &set, Source &artifact,
                                         Source *reference) {
  const std::atomic<bool> &stop = catchInterrupts();
  ProgressLine progress("evaluating", [&set](uint64_t done, uint64_t total) {
    return strCat(done, " of ", total, " ", set.sampleName());
  });
  return set.evaluate(
      *artifact.source, reference ? reference->source.get() : nullptr,
      [&progress](uint64_t done, uint64_t total) { progress.update(done, total); }, &stop);
}

/// The reference's scores that the artifact carries for the given texts. nullopt if a reference is
/// given.
Result<std::optional<RecordedReference>>
findRecorded(const EvalOptions &options, const EvaluationSet &set, const Model &model) {
  const std::optional<Measured> &measured = model.artifact().measured;
  if (options.reference || !measured)
    return std::optional<RecordedReference>();
  return RecordedReference::find(*measured, options.request, set.textsRead(),
                                 [](const std::string &note) { printError(note); });
}

/// Prints the results. An undefined loss is an error as text and null in JSON.
Status report(const EvalOptions &options, const EvaluationSet &set,
              const std::vector<SampleScore> &samples, const Source &artifact,
              const Source *reference, const std::optional<RecordedReference> &recorded) {
  RecordedLoss recordedLoss;
  if (recorded)
    recordedLoss = {recorded->beside(samples), recorded->confidence()};
  const EvalReport results = {
      options.request.metric, options.request.files, samples,
      set.sampleName(),       reference != nullptr,  recorded ? &recordedLoss : nullptr};
  if (options.asJson)
    return writeOutput(
        reportJson(results, artifact.loaded, reference ? &reference->loaded : nullptr));
  MOERT_RETURN_IF_ERROR(writeOutput(reportText(results)));
  if (reference && !lossOf(sumOf(samples), options.request.metric))
    return failed("the relative loss is undefined: the reference's ",
                  metricName(options.request.metric), " is zero");
  return {};
}

/// Says what scores of acceptance texts must not be used for.
void noteAccepted(const EvalOptions &options, const EvaluationSet &set, const Model &model) {
  const std::vector<std::string> &files = options.request.files;
  for (size_t i = 0; i < files.size(); ++i)
    if (wasAcceptedOn(model.artifact(), set.textsRead()[i]))
      printError(strCat(inputName(files[i]), " is a text that ", model.path(),
                        " was accepted on: a target, widths or miss rules that are chosen after "
                        "reading its scores need new documents to be accepted on"));
}

/// Says if the reference is not the checkpoint at its own precision: comparing two artifacts is
/// useful, but the loss relates to the reference.
void noteQuantized(const Model &reference) {
  std::string found;
  for (const auto &[key, value] : reference.artifact().provenance)
    if ((key == "bits" || key == "resident_bits" || key == "head_bits" || key == "kv_bits") &&
        value != "source")
      found += strCat(found.empty() ? "" : ", ", key, " ", value);
  if (!found.empty())
    printError(strCat("--reference '", reference.path(), "' is quantized (", found,
                      "): losses relate to it, not to the checkpoint, which --bits source "
                      "--resident-bits source keeps"));
}

/// LogitsSource::wholeTokens() of any plan that may be taken.
uint32_t wholeTokensOf(const Model &model, const EngineOptions &engine) {
  uint32_t tokens = 1;
  for (const Plan &plan : model.artifact().plans)
    if (plan.miss.changesPrompts() && !engine.isExact)
      tokens = std::max(tokens, plan.prefillChunk);
  return tokens;
}

/// Refuses one that computes texts as a whole. Images are computed alone.
Result<std::unique_ptr<Model>> openEvaluated(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::open(path));
  if (!imagesOf(model->artifact()))
    MOERT_RETURN_IF_ERROR(checkContinuesTexts(*model, "moert eval"));
  return model;
}

Status evaluate(EvalOptions options) {
  MOERT_RETURN_IF_ERROR(checkOptions(options));
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, openEvaluated(options.artifact));
  if (imagesOf(model->artifact()) && !options.isMetricGiven)
    options.request.metric = LossMetric::kAccuracy;
  std::unique_ptr<Model> referenceModel;
  if (options.reference) {
    MOERT_ASSIGN_OR_RETURN(referenceModel, openEvaluated(*options.reference));
    noteQuantized(*referenceModel);
  }
  MOERT_ASSIGN_OR_RETURN(const EvaluationSet set,
                         EvaluationSet::read(options.request, *model,
                                             [](const std::string &note) { printError(note); }));
  noteAccepted(options, set, *model);
  MOERT_ASSIGN_OR_RETURN(const std::optional<RecordedReference> recorded,
                         findRecorded(options, set, *model));
  EngineOptions engine = set.engineOptions(engineOptionsOf(options.engine));
  EngineOptions referenceEngine = engine;
  referenceEngine.preset.reset(); // --preset applies to the artifact only.
  engine.extraBytes = set.memoryBytes(referenceModel != nullptr, wholeTokensOf(*model, engine)) +
                      (recorded ? recorded->memoryBytes() : 0);
  referenceEngine.sharesProcess = true;
  referenceEngine.device = nullptr; // The device has memory for one; the bits are the same.
  if (referenceModel)
    MOERT_RETURN_IF_ERROR(setBudgets(options, *model, engine, *referenceModel, referenceEngine));
  MOERT_ASSIGN_OR_RETURN(Source artifact,
                         loadSource(std::move(model), engine, options.engine.notices,
                                    {.levers = "a smaller --window"}, set));
  std::optional<Source> reference;
  if (referenceModel) {
    auto loaded = loadSource(std::move(referenceModel), referenceEngine, options.engine.notices,
                             {.title = "memory that the reference adds"}, set);
    if (!loaded.isOk())
      return loaded.status().withContext("reference");
    reference = std::move(loaded).value();
  }
  Source *second = reference ? &*reference : nullptr;
  MOERT_ASSIGN_OR_RETURN(std::vector<SampleScore> samples, measure(set, artifact, second));
  return report(options, set, samples, artifact, second, recorded);
}

void addMetric(CLI::App &command, EvalOptions &options) {
  auto takeMetric = [&options](const std::string &text) {
    std::optional<LossMetric> metric = parseMetric(text);
    if (!metric)
      throw CLI::ValidationError(
          "--metric",
          strCat("'", text, "', expected perplexity, kl, top1, choice, rouge2, exact or accuracy"));
    options.request.metric = *metric;
    options.isMetricGiven = true;
  };
  command
      .add_option_function<std::string>(
          "--metric", takeMetric,
          "What is measured. On texts: perplexity, kl (nats per token), top1 (agreement with the "
          "reference). On items: choice (right answers), rouge2 (F1), exact (matching answers). "
          "On images: accuracy (right classes) (default: perplexity, of images accuracy)")
      ->type_name("NAME")
      ->group("Measure");
}

void addTextOptions(CLI::App &command, EvaluationRequest &request) {
  const std::string group = "On texts";
  command
      .add_option("--document-separator", request.documentSeparator,
                  strCat("The line between two documents of a text that is not .jsonl; \"\": each "
                         "file is one document (default: ",
                         kDocumentSeparator, ")"))
      ->type_name("LINE")
      ->group(group);
  addCount(
      command, "--window", 2, kMaxWindowTokens,
      [&request](uint32_t n) { request.windows.windowTokens = n; },
      "Tokens of a window (default: 512). The rest of a document is left out; documents shorter "
      "than a window are packed, each after the model's separator token")
      ->group(group);
  addCount(
      command, "--score-from", 1, kMaxWindowTokens,
      [&request](uint32_t n) { request.windows.scoreFrom = n; },
      "First token of each window that is scored, counted from 0 (default: 1). 257 of 512 scores "
      "the tokens that llama-perplexity scores")
      ->group(group);
}

void addItemOptions(CLI::App &command, EvaluationRequest &request) {
  const std::string group = "On items";
  auto takeBy = [&request](const std::string &text) {
    if (text != "letter" && text != "text")
      throw CLI::ValidationError("--choice-by", strCat("'", text, "', expected letter or text"));
    request.choiceBy = text == "letter" ? ChoiceBy::kLetter : ChoiceBy::kText;
  };
  command
      .add_option_function<std::string>(
          "--choice-by", takeBy,
          "choice: letter lists the choices in the question and compares their letters; text "
          "compares their texts (default: letter)")
      ->type_name("NAME")
      ->group(group);
  addCount(
      command, "--max-tokens", 1, kMaxAnswerTokens,
      [&request](uint32_t n) { request.answers.maxTokens = n; },
      "rouge2, exact: most tokens to generate (default: 128)")
      ->group(group);
  command
      .add_option("--stop", request.answers.stopTexts,
                  "rouge2, exact: end the answer before any of these; special tokens such as "
                  "<|im_end|> match "
                  "as well")
      ->type_name("TEXT")
      ->group(group);
  command
      .add_option(
          "--answer-after", request.answers.answerAfter,
          "exact: compare only what follows the last such text in either answer; GSM8K's is ####")
      ->type_name("TEXT")
      ->group(group);
}

/// Refuses options that the metric does not use.
Status refuseUnused(const CLI::App &command, LossMetric metric) {
  const bool isChoice = metric == LossMetric::kChoice, isOnItems = isOfItems(metric);
  const bool isAnswer = metric == LossMetric::kRouge2 || metric == LossMetric::kExact;
  const struct {
    const char *name;
    bool isUsed;
  } kOptions[] = {{"--window", !isOnItems},
                  {"--score-from", !isOnItems},
                  {"--document-separator", !isOnItems},
                  {"--choice-by", isChoice},
                  {"--max-tokens", isAnswer},
                  {"--stop", isAnswer},
                  {"--answer-after", metric == LossMetric::kExact}};
  for (const auto &[name, isUsed] : kOptions)
    if (!isUsed && command.count(name) > 0)
      return invalidInput(name, " does not apply to --metric ", metricName(metric));
  return {};
}

} // namespace

void addEvalCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<EvalOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command = app.add_subcommand(
      "eval", "Measure accuracy on texts or items, alone or against a reference");
  command->add_option("artifact", options->artifact, "The compiled model")
      ->type_name("OUT.moe")
      ->required();
  command
      ->add_option(
          "--text,--images", options->request.files,
          "UTF-8: texts, or items as JSONL, one object a line. As a text, a .jsonl file has "
          "one document a line as {\"text\": \"...\"}; any other file is one document, or "
          "several between separator lines. For a vision model folders, each with a folder of "
          "images for each class, which has the class's name or number")
      ->type_name("FILE")
      ->required()
      ->group("Measure");
  command
      ->add_option(
          "--reference", options->reference,
          "Compare with this artifact: loss, KL(reference || artifact) and top-1 agreement")
      ->type_name("REF.moe")
      ->group("Measure");
  addMetric(*command, *options);
  addTextOptions(*command, options->request);
  addItemOptions(*command, options->request);
  command->add_flag("--json", options->asJson, "Print one JSON object")->group("Output");
  addEngineFlags(*command, options->engine);
  command->footer(
      "Windows do not overlap; every token of a window but the first is scored.\n"
      "Items of choice (MMLU's form): {\"question\": \"...\", \"choices\": [\"...\", ...], "
      "\"answer\": "
      "0}. The answer is counted from 0; \"subject\" is optional.\n"
      "Items of rouge2 and exact: {\"prompt\": \"...\", \"answer\": \"...\"}, where the answer may "
      "be a "
      "list of right ones. The model continues the prompt with the most likely token every time. "
      "Exact match ignores case, white space, commas in numbers and a full stop at the end.\n"
      "The loss against a reference is the relative increase of the perplexity, the KL divergence "
      "in "
      "nats, or the relative decrease of the other metrics; for top1 it is 1 - agreement. On "
      "items, "
      "KL and agreement are measured over the prompt followed by the right answer.\n"
      "The upper 95% bound is a paired bootstrap of windows or items within each file. On n items "
      "that the reference answers correctly it is at least 1 - 0.05^(1/n), the loss that so few "
      "items could hide.\n"
      "Without a reference, the loss is measured on the texts or items on which the artifact was "
      "accepted when its widths were chosen: the artifact carries the reference's scores there.\n"
      "With a reference, --memory in bytes covers both models: each gets its smallest budget and a "
      "part of the rest. A percentage applies to each model's own experts.\n" +
      exampleFooter("moert eval qwen.moe --text wiki.txt code.txt --reference source.moe --json"));
  command->callback([options, command, &chosen] {
    chosen = [options, command]() -> Status {
      MOERT_RETURN_IF_ERROR(refuseUnused(*command, options->request.metric));
      return evaluate(*options);
    };
  });
}

} // namespace moert::cli
