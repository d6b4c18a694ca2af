#include "tools/moec/AccuracyFlags.h"

#include "tools/moec/Options.h"

#include <charconv>

using namespace moert;

namespace moec::cli {

std::string AccuracyFlags::askedBy() const {
  if (!loss.empty())
    return "--accuracy-loss";
  if (!quantile.empty())
    return "--accuracy-quantile";
  if (quantizer != "auto" && quantizer != "nearest")
    return "--quantizer " + quantizer;
  if (!profile.empty())
    return "--calibration";
  if (!calibrationTexts.empty())
    return "--calibration-text";
  if (selfText > 0)
    return "--self-text";
  return acceptanceTexts.empty() ? "" : "--eval-text";
}

// Their heading in --help.
static constexpr const char *kGroup = "Accuracy";

// What has an effect only with --accuracy-loss or --accuracy-quantile.
static constexpr const char *kOfTarget[] = {
    "--metric",    "--eval-text",  "--search-windows", "--acceptance-log", "--solver",
    "--choice-by", "--max-tokens", "--stop",           "--answer-after",   "--check-estimates"};

// Options that would have no effect are refused, not ignored: they need a target (kOfTarget) or one
// of `calibrationTexts`.
static void addTexts(CLI::App &command, AccuracyFlags &flags) {
  command
      .add_option("--calibration-text,--calibration-images", flags.calibrationTexts,
                  "Texts, UTF-8, for calibration and for the search: .jsonl files with one "
                  "document a line as {\"text\": \"...\"}; any other file is one document, or "
                  "several between separator lines. For a vision model folders, each with a folder "
                  "of images for each class, which has the class's name or number")
      ->check(someWord())
      ->group(kGroup)
      ->type_name("FILE");
  CLI::Option *profile =
      command
          .add_option("--calibration", flags.profile,
                      "Profile that moec calibrate wrote, instead of calibrating")
          ->check(someWord())
          ->group(kGroup)
          ->type_name("PROFILE");
  command
      .add_option(
          "--eval-text,--eval-images", flags.acceptanceTexts,
          strCat("Texts on which the loss is accepted, used for nothing else (default: "
                 "documents set aside from the calibration texts). The bound is over "
                 "documents like theirs: at least ",
                 kMinimumBoundUnits,
                 " documents, or windows of short ones, better hundreds. For choice, rouge2 "
                 "and exact, items; for accuracy, folders of images"))
      ->check(someWord())
      ->group(kGroup)
      ->type_name("FILE");
  addDocumentSeparator(command, flags.documentSeparator)
      ->each([&flags](const std::string &) { flags.isSeparatorGiven = true; })
      ->group(kGroup);
  command
      .add_option(
          "--self-text", flags.selfText,
          "Let the checkpoint write N documents, for calibration and for acceptance if no text "
          "is given for them: half for each, or all for one")
      ->check(within(1, uint64_t(1) << 24))
      ->group(kGroup)
      ->type_name("N");
  command
      .add_flag("--no-calibration", flags.isUncalibrated,
                "Round to nearest without calibrating, in seconds. The loss is not measured, and "
                "can be tens of percent")
      ->group(kGroup);
  command
      .add_option("--calibration-tokens", flags.calibrationTokens,
                  withDefault("Tokens to calibrate with", kCalibrationTokens))
      ->excludes(profile)
      ->check(within(1, uint64_t(1) << 30))
      ->group(kGroup)
      ->type_name("N");
  command
      .add_option("--search-windows", flags.searchWindows,
                  withDefault(strCat("Windows of ", TextAmounts().windowTokens,
                                     " tokens on which each candidate is measured; fewer take "
                                     "less time, but the wider bound costs bytes"),
                              flags.searchWindows))
      ->check(within(kLeastWindows, uint64_t(1) << 20))
      ->group(kGroup)
      ->type_name("N");
  command
      .add_option(
          "--acceptance-log", flags.acceptanceLog,
          "Record of the compiles that tested checkpoints on documents. Each further compile "
          "of a checkpoint on any of the same documents needs a higher confidence (default: "
          "moec/acceptance-tests.jsonl in $XDG_STATE_HOME or ~/.local/state)")
      ->check(someWord())
      ->group(kGroup)
      ->type_name("FILE");
  command
      .add_option("--seed", flags.seed,
                  withDefault("Random seed of the windows for calibration and of --self-text", 0))
      ->check(within(0, UINT64_MAX))
      ->group(kGroup)
      ->type_name("S");
}

// As moert eval has them.
static void addItemOptions(CLI::App &command, AccuracyFlags &flags) {
  const std::string group = "Accuracy on items (JSONL; moert eval --help describes their form)";
  command
      .add_option(
          "--choice-by", flags.choiceBy,
          "choice: letter lists the choices in the question and compares their letters; text "
          "compares their texts (default: letter)")
      ->check(oneOf({"letter", "text"}))
      ->group(group)
      ->type_name("NAME");
  command
      .add_option("--max-tokens", flags.maxTokens,
                  strCat("rouge2, exact: most tokens to generate (default: ",
                         AnswerOptions().maxTokens, ")"))
      ->check(within(1, uint64_t(1) << 20))
      ->group(group)
      ->type_name("N");
  command
      .add_option(
          "--stop", flags.stopTexts,
          "rouge2, exact: end the answer before any of these; special tokens such as <|im_end|> "
          "match as well")
      ->check(someWord())
      ->group(group)
      ->type_name("TEXT");
  command
      .add_option(
          "--answer-after", flags.answerAfter,
          "exact: compare only what follows the last such text in either answer; GSM8K's is ####")
      ->check(someWord())
      ->group(group)
      ->type_name("TEXT");
}

void addAccuracyFlags(CLI::App &command, AccuracyFlags &flags) {
  command
      .add_option("--accuracy-loss", flags.loss,
                  "Find the widths of fewest bytes that lose at most this much relative to the "
                  "checkpoint, with 95% confidence if the tail of losses is no longer than the "
                  "documents show: a relative loss such as 2%, or for kl a number of nats such as "
                  "0.05. With --device and --memory, find the widths "
                  "with the shortest expected time per token instead, for the first budget and "
                  "preset")
      ->check(someWord())
      ->group(kGroup)
      ->type_name("LOSS");
  command
      .add_option(
          "--accuracy-quantile", flags.quantile,
          "Accept on single documents: 90%:3% for at least 90% of documents that lose at most "
          "3% each, with 95% confidence and no assumption on the others. Alone, or both with "
          "--accuracy-loss. 90% takes 32 documents, 95% 65, 99% 331")
      ->check(someWord())
      ->group(kGroup)
      ->type_name("FRACTION:LOSS");
  command
      .add_option(
          "--metric", flags.metric,
          withDefault("How the loss is measured. On texts: perplexity, kl (nats per token), top1 "
                      "(agreement with the checkpoint). On the items of --eval-text: choice "
                      "(right answers), rouge2 (F1), exact (matching answers). On images: accuracy "
                      "(right classes)",
                      flags.metric))
      ->check(oneOf({"perplexity", "kl", "top1", "choice", "rouge2", "exact", "accuracy"}))
      ->group(kGroup)
      ->type_name("NAME");
  addTexts(command, flags);
  command
      .add_option("--quantizer", flags.quantizer,
                  strCat("How experts, and with gptq all matrices, are rounded: auto, nearest, "
                         "per-channel, clipped, weighted, hqq or "
                         "gptq (default: auto: ",
                         nameOf(AccurateCompileRequest().method),
                         " with calibration, nearest without)"))
      ->check(oneOf({"auto", "nearest", "per-channel", "clipped", "weighted", "hqq", "gptq"}))
      ->group(kGroup)
      ->type_name("NAME");
  command
      .add_option(
          "--solver", flags.solver,
          withDefault(
              "What chooses the widths of the experts: mckp (a knapsack over bytes or seconds), "
              "edgemoe "
              "(that system's selection), uniform (one width for all), or auto (the best of them)",
              flags.solver))
      ->check(oneOf({"auto", "mckp", "edgemoe", "uniform"}))
      ->group(kGroup)
      ->type_name("NAME");
  command
      .add_option(
          "--check-estimates", flags.checkedEstimates,
          "Also measure N experts one by one, and print the rank correlation with the search's "
          "estimates")
      ->check(within(2, uint64_t(1) << 20))
      ->group(kGroup)
      ->type_name("N");
  addItemOptions(command, flags);
  for (const char *name : kOfTarget)
    flags.ofTarget.push_back(command.get_option(name));
}

static Result<double> parseLoss(const std::string &text, LossMetric metric,
                                const std::string &option) {
  const bool isPercent = !text.empty() && text.back() == '%';
  const char *end = text.data() + text.size() - (isPercent ? 1 : 0);
  double value = 0;
  auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool isNumber = error == std::errc() && stop == end;
  if (metric == LossMetric::kKl) {
    if (isPercent || !isNumber || !(value > 0) || !(value <= 100))
      return invalidInput(option, " ", text,
                          ": KL is in nats per token, expected a number such as 0.05");
    return value;
  }
  if (!isNumber || !(value > 0) || !(value <= 1e4))
    return invalidInput(option, " ", text, ", expected a percentage above 0 such as 2%");
  // A bare 2 means 2%; taken as a fraction it would allow three times the perplexity.
  if (!isPercent && value >= 1)
    return invalidInput(option, " ", text, ", expected ", text, "%, or a fraction such as 0.02");
  return isPercent ? value / 100 : value;
}

Result<double> parseLoss(const std::string &text, LossMetric metric) {
  return parseLoss(text, metric, "--accuracy-loss");
}

Result<QuantileLoss> parseQuantile(const std::string &text, LossMetric metric) {
  const std::string option = "--accuracy-quantile";
  const size_t colon = text.find(':');
  const std::string expected =
      strCat(", expected a fraction of the documents and what each may lose, such as ",
             metric == LossMetric::kKl ? "90%:0.05" : "90%:3%");
  if (colon == std::string::npos)
    return invalidInput(option, " ", text, expected);
  const bool isPercent = colon > 0 && text[colon - 1] == '%';
  QuantileLoss target;
  const char *end = text.data() + colon - (isPercent ? 1 : 0);
  const auto [stop, error] = std::from_chars(text.data(), end, target.fraction);
  if (isPercent)
    target.fraction /= 100;
  if (error != std::errc() || stop != end || !(target.fraction > 0 && target.fraction < 1))
    return invalidInput(option, " ", text, ": the fraction is above 0% and below 100%", expected);
  MOERT_ASSIGN_OR_RETURN(target.loss, parseLoss(text.substr(colon + 1), metric, option));
  return target;
}

Status parseTarget(const std::string &loss, const std::string &quantile, LossMetric metric,
                   AcceptanceTarget &target) {
  if (!loss.empty()) {
    MOERT_ASSIGN_OR_RETURN(target.mean, parseLoss(loss, metric));
  }
  if (!quantile.empty()) {
    MOERT_ASSIGN_OR_RETURN(target.quantile, parseQuantile(quantile, metric));
  }
  return {};
}

// Refuses options that the metric does not use.
static Status takeItemOptions(const AccuracyFlags &flags, AccurateCompileRequest &request) {
  const bool isChoice = request.metric == LossMetric::kChoice;
  const bool isAnswers =
      request.metric == LossMetric::kRouge2 || request.metric == LossMetric::kExact;
  const struct {
    const char *name;
    bool isGiven, isUsed;
  } kOptions[] = {
      {"--choice-by", !flags.choiceBy.empty(), isChoice},
      {"--max-tokens", flags.maxTokens > 0, isAnswers},
      {"--stop", !flags.stopTexts.empty(), isAnswers},
      {"--answer-after", !flags.answerAfter.empty(), request.metric == LossMetric::kExact}};
  for (const auto &[name, isGiven, isUsed] : kOptions)
    if (isGiven && !isUsed)
      return invalidInput(name, " does not apply to --metric ", metricName(request.metric));
  if (flags.choiceBy == "text")
    request.choiceBy = ChoiceBy::kText;
  if (flags.maxTokens > 0)
    request.answers.maxTokens = flags.maxTokens;
  request.answers.stopTexts = flags.stopTexts;
  request.answers.answerAfter = flags.answerAfter;
  return {};
}

Status checkTextOptions(const AccuracyFlags &flags) {
  if (flags.loss.empty() && flags.quantile.empty())
    for (const CLI::Option *option : flags.ofTarget)
      if (option->count() > 0)
        return invalidInput(option->get_name(), " requires --accuracy-loss or --accuracy-quantile");
  const bool hasText = !flags.calibrationTexts.empty() || flags.selfText > 0;
  if (!hasText && (flags.seed || flags.calibrationTokens))
    return invalidInput(flags.seed ? "--seed" : "--calibration-tokens",
                        " requires --calibration-text or --self-text");
  return {};
}

Status takeAccuracyFlags(const AccuracyFlags &flags, AccurateCompileRequest &request) {
  MOERT_RETURN_IF_ERROR(checkTextOptions(flags));
  request.metric = *parseMetric(flags.metric);
  AcceptanceTarget target;
  MOERT_RETURN_IF_ERROR(parseTarget(flags.loss, flags.quantile, request.metric, target));
  request.target = target.mean;
  request.quantileTarget = target.quantile;
  MOERT_RETURN_IF_ERROR(takeItemOptions(flags, request));
  for (QuantizeMethod method :
       {QuantizeMethod::kNearest, QuantizeMethod::kPerChannel, QuantizeMethod::kClipped,
        QuantizeMethod::kWeighted, QuantizeMethod::kHqq, QuantizeMethod::kGptq})
    if (nameOf(method) == flags.quantizer)
      request.method = method;
  if (flags.solver == "mckp")
    request.solver = SolverChoice::kKnapsack;
  if (flags.solver == "edgemoe")
    request.solver = SolverChoice::kEdgeMoe;
  if (flags.solver == "uniform")
    request.solver = SolverChoice::kUniform;
  if (flags.checkedEstimates > 0 && request.solver == SolverChoice::kUniform)
    return invalidInput(
        "--check-estimates does not apply to --solver uniform, which makes no estimates");
  request.calibrationTexts = flags.calibrationTexts;
  request.acceptanceTexts = flags.acceptanceTexts;
  request.selfTextDocuments = flags.selfText;
  request.acceptanceLogPath = flags.acceptanceLog;
  request.documentSeparator = flags.documentSeparator;
  request.profilePath = flags.profile;
  request.calibrationTokens = flags.calibrationTokens.value_or(kCalibrationTokens);
  request.amounts.searchWindows = flags.searchWindows;
  request.amounts.probeWindows = std::max<uint32_t>(flags.searchWindows / 4, 1);
  request.seed = flags.seed.value_or(0);
  request.checkedEstimates = flags.checkedEstimates;
  return {};
}

} // namespace moec::cli
