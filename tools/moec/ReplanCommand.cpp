// moec replan: plans for other budgets, presets and devices, for an existing artifact.
#include "compiler/planning/Replan.h"
#include "tools/console/HelpFormatter.h"
#include "tools/moec/AccuracyFlags.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include "runtime/base/SystemLimits.h"
#include "runtime/policy/Prefetches.h"

#include <algorithm>
#include <memory>

using namespace moert;
using moert::cli::exampleFooter;

namespace moec::cli {

namespace {

/// As given, before they are read together.
struct MissFlags {
  std::vector<std::string> rules;
  std::string metric = "perplexity", loss, quantile;
};

Status takeMissFlags(const MissFlags &flags, MissRequest &request) {
  constexpr const char *kSearched = "auto";
  request.isSearched = std::ranges::count(flags.rules, kSearched) > 0;
  if (request.isSearched && flags.rules.size() > 1)
    return invalidInput("--miss auto and other rules, expected auto alone: it searches over rules");
  for (const std::string &text : flags.rules) {
    if (request.isSearched)
      break;
    MOERT_ASSIGN_OR_RETURN(const MissRule rule, parseMissRule(text));
    request.rules.push_back(rule);
  }
  request.texts.metric = *parseMetric(flags.metric);
  return parseTarget(flags.loss, flags.quantile, request.texts.metric, request.target);
}

void addMissFlags(CLI::App &command, MissFlags &flags, ReplanRequest &replan) {
  MissRequest &request = replan.miss;
  command
      .add_option("--miss", flags.rules,
                  "What happens to experts that are not in memory, while decoding: wait, "
                  "lower:T1:T2 (fewer slices), skip:T1, substitute:T1:DISTANCE, mask; in prompts: "
                  "prompts:PART (fewer slices of all but this part, the most used). A plan is made "
                  "for each, and its loss is measured. auto: searches for the fastest rule within "
                  "--accuracy-loss and --accuracy-quantile, or none (default: the preset's, which "
                  "for all but hobbit, swapmoe and "
                  "pruning is wait and loses nothing)")
      ->expected(1, 16)
      ->check(someWord())
      ->type_name("RULE");
  command
      .add_option(
          "--accuracy-loss", flags.loss,
          "Take for each plan the last rule of --miss, from safe to lossy, whose loss is at "
          "most this with confidence; wait if there is none. The loss of the widths counts. With "
          "--miss auto the fastest one that was found, with preset fate the last of its rules for "
          "prompts")
      ->check(someWord())
      ->type_name("LOSS");
  command
      .add_option(
          "--accuracy-quantile", flags.quantile,
          "Accept a rule on single documents: 90%:3% for at least 90% of documents that lose at "
          "most 3% each, with no assumption on the others. Alone, or both with --accuracy-loss. "
          "90% takes 32 documents with one plan, more with several")
      ->check(someWord())
      ->type_name("FRACTION:LOSS");
  command
      .add_option(
          "--reference", request.referencePath,
          "The same checkpoint compiled with --bits source --resident-bits source, to which "
          "losses relate")
      ->check(someWord())
      ->type_name("REF.moe");
  command
      .add_option("--eval-text", request.texts.files,
                  "Texts that are decoded to measure losses: 20 documents or more")
      ->check(someWord())
      ->type_name("FILE");
  command
      .add_option("--calibration-text", request.calibrationTexts,
                  "Texts, documents of which cannot test a loss: with --accuracy-loss or "
                  "--accuracy-quantile, documents of --eval-text that share 16 tokens in a row "
                  "with them are left out, as with what calibration and the search for widths "
                  "have read, which the artifact keeps, and the profile of --calibration. "
                  "Artifacts of earlier versions need the texts that these have read")
      ->check(someWord())
      ->type_name("FILE");
  command
      .add_option("--profile-text", request.profileFiles,
                  "Texts on which random configurations of virtual experts are measured, so that "
                  "preset swapmoe divides the cache by an accuracy model; other ones than "
                  "--eval-text (default: none, layers have the same quota)")
      ->check(someWord())
      ->type_name("FILE");
  command
      .add_option("--metric", flags.metric, withDefault("What a loss is measured by", flags.metric))
      ->check(oneOf({"perplexity", "kl", "top1"}))
      ->type_name("NAME");
  command
      .add_option("--window", request.texts.windows.windowTokens,
                  withDefault("Tokens of a decoded window", request.texts.windows.windowTokens))
      ->check(within(2, uint32_t(1) << 20))
      ->type_name("N");
  command
      .add_option("--acceptance-log", request.acceptanceLogPath,
                  "Record of the tests of documents with --accuracy-loss or --accuracy-quantile "
                  "(default: "
                  "$XDG_STATE_HOME/moec/acceptance-tests.jsonl)")
      ->check(someWord())
      ->type_name("FILE");
  addDocumentSeparator(command, request.texts.documentSeparator);
  addRunning(command, request.threads, &replan.resume, &replan.restart);
  setGroup(command, "Experts that are missing",
           {"--miss", "--accuracy-loss", "--accuracy-quantile", "--reference", "--eval-text",
            "--calibration-text", "--profile-text", "--metric", "--window", "--acceptance-log",
            "--document-separator"});
}

} // namespace

void addReplanCommand(CLI::App &app, Action &chosen) {
  auto request = std::make_shared<ReplanRequest>();
  CLI::App *command = app.add_subcommand(
      "replan", "Plan an artifact for other budgets or another device, without quantizing again");
  command->add_option("artifact", request->artifactPath, "The artifact, which is not changed")
      ->required()
      ->type_name("OUT.moe");
  addOutput(*command, request->outputPath, "The artifact to write")->type_name("NEW.moe");
  addBudgets(*command, request->budgets, "to plan for")->required();
  command
      ->add_option(
          "--preset", request->presets,
          "How to plan: auto searches for the fastest plan; load-on-demand, lru, edgemoe, "
          "fate, hobbit, swapmoe and pruning are published systems, for comparison. A plan "
          "is made for each (default: auto)")
      ->expected(1, 8)
      ->check(someWord())
      ->type_name("NAME");
  command
      ->add_option("--device", request->devicePath,
                   "Device profile to plan for, as moert probe writes it (default: none: auto "
                   "prefetches nothing, and presets that prefetch are refused)")
      ->check(someWord())
      ->type_name("F.yaml");
  command
      ->add_option("--calibration", request->profilePath,
                   "Calibration profile whose trace is used and kept in the new artifact (default: "
                   "the artifact's own)")
      ->check(someWord())
      ->type_name("PROFILE");
  command
      ->add_option("--context", request->context,
                   "Tokens of context to plan for (default: those of the artifact's plans)")
      ->check(within(1, uint32_t(1) << 30))
      ->type_name("N");
  command
      ->add_option(
          "--prefetch-depth", request->hobbitDepth,
          "How many MoE layers ahead preset hobbit predicts, as far as their experts are in "
          "memory (default: as many as decode the calibration text fastest)")
      ->check(within(1, kMostAhead))
      ->type_name("N");
  setGroup(*command, "Plans",
           {"--memory", "--preset", "--device", "--calibration", "--context", "--prefetch-depth"});
  auto missFlags = std::make_shared<MissFlags>();
  addMissFlags(*command, *missFlags, *request);
  command->footer(exampleFooter("moec replan qwen.moe -o small.moe --memory 4GiB --device "
                                "laptop.yaml"));
  command->callback([request, missFlags, &chosen] {
    chosen = [request, missFlags]() -> Status {
      MOERT_RETURN_IF_ERROR(takeMissFlags(*missFlags, request->miss));
      StepProgress progress;
      return replanArtifact(*request, sessionWith(progress));
    };
  });
}

} // namespace moec::cli
