// moec calibrate: what a checkpoint's routers and experts see on texts, as a profile.
#include "compiler/commands/CalibrateCheckpoint.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <memory>

using namespace moert;

namespace moec::cli {

namespace {

struct CalibrateFlags {
  std::string checkpoint, memory;
  uint64_t selfText = 0;
  CalibrateOptions options;
};

} // namespace

static Status runCalibrate(CalibrateFlags &flags) {
  if (!flags.memory.empty()) {
    MOERT_ASSIGN_OR_RETURN(Size size, parseSize(flags.memory));
    flags.options.memory = BudgetSize{size.bytes, size.share};
  }
  StepProgress progress;
  return calibrateCheckpoint(flags.checkpoint, flags.options, flags.selfText,
                             sessionWith(progress));
}

static void addNumbers(CLI::App &command, CalibrateFlags &flags) {
  CalibrateOptions &options = flags.options;
  command
      .add_option("--tokens", options.tokens,
                  strCat("Tokens to calibrate with, in windows of ", options.windowTokens,
                         " spread over the texts and inside each (default: ", options.tokens, ")"))
      ->check(within(1, uint64_t(1) << 30))
      ->type_name("N");
  command
      .add_option("--seed", options.seed,
                  withDefault("Seed of the windows in the texts, and of --self-text", options.seed))
      ->check(within(0, UINT64_MAX))
      ->type_name("S");
  command
      .add_option("--memory", flags.memory,
                  "Limit of the whole process: 512MiB, 6GiB, or 25% of the experts beside what is "
                  "needed anyway (default: what the container and the system leave)")
      ->check(someSize())
      ->type_name("SIZE");
  options.threads = availableCores();
  command
      .add_option("--threads", options.threads,
                  "Threads that compute (default: the cores that this process may use)")
      ->check(within(1, 1024))
      ->type_name("N");
}

void addCalibrateCommand(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App *command = app.add_subcommand(
      "calibrate", "Learn from texts what a checkpoint's routers and experts see");
  command->add_option("checkpoint", flags->checkpoint, "Directory of the checkpoint")
      ->required()
      ->type_name("CKPT");
  CLI::Option_group *texts = command->add_option_group("Text", "One of them is required");
  texts
      ->add_option(
          "--calibration-text", flags->options.textPaths,
          "Texts, UTF-8: .jsonl with a document per line, {\"text\": \"...\"}, or plain text")
      ->type_name("FILE");
  texts
      ->add_option("--self-text", flags->selfText,
                   "Let the checkpoint write N documents to calibrate with")
      ->check(within(1, uint64_t(1) << 24))
      ->type_name("N");
  texts->require_option(1);
  command
      ->add_option("-o,--output", flags->options.outputPath,
                   "The profile to write; moec inspect shows what it says")
      ->required()
      ->type_name("PROFILE");
  addNumbers(*command, *flags);
  command->add_flag("--resume", flags->options.resume,
                    "Go on with what a command that did not finish left");
  command->callback([flags, &chosen] { chosen = [flags] { return runCalibrate(*flags); }; });
}

} // namespace moec::cli
