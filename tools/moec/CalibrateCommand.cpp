// moec calibrate: runs a checkpoint on texts and writes a calibration profile of its routing and
// its experts' inputs.
#include "compiler/commands/CalibrateCheckpoint.h"
#include "runtime/base/Size.h"
#include "tools/console/HelpFormatter.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <memory>

using namespace moert;
using moert::cli::exampleFooter;

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
    flags.options.memory = BudgetSize{size.bytes, size.fraction};
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
                  withDefault("Random seed of the windows and of --self-text", options.seed))
      ->check(within(0, UINT64_MAX))
      ->type_name("S");
  command
      .add_option(
          "--memory", flags.memory,
          "Memory limit of the whole process: 512MiB, 6GiB, or 25%: a quarter of the bytes that "
          "all experts have in the checkpoint, plus the least that calibration needs (default: "
          "what the container and the free memory allow)")
      ->check(someSize())
      ->type_name("SIZE");
  setGroup(command, "Calibration", {"--tokens", "--seed", "--memory"});
}

void addCalibrateCommand(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App *command = app.add_subcommand(
      "calibrate", "Run a checkpoint on texts and record its routing and its experts' inputs");
  command->add_option("checkpoint", flags->checkpoint, "Folder of the checkpoint, or a GGUF file")
      ->required()
      ->type_name("CKPT");
  CLI::Option_group *texts = command->add_option_group("Text, one of");
  texts->set_help_flag(); // The command already has --help.
  texts
      ->add_option(
          "--calibration-text", flags->options.textPaths,
          "Texts, UTF-8: .jsonl files with one document a line as {\"text\": \"...\"}; any "
          "other file is one document, or several between separator lines")
      ->type_name("FILE");
  texts
      ->add_option("--self-text", flags->selfText,
                   "Let the checkpoint write N documents to calibrate with")
      ->check(within(1, uint64_t(1) << 24))
      ->type_name("N");
  texts->require_option(1);
  addDocumentSeparator(*command, flags->options.documentSeparator)->group("Calibration");
  for (CLI::Option *text : texts->get_options())
    text->group(texts->get_group());
  addOutput(*command, flags->options.outputPath, "The profile to write; moec inspect prints it")
      ->type_name("PROFILE");
  addNumbers(*command, *flags);
  addRunning(*command, flags->options.threads, &flags->options.resume, &flags->options.restart);
  command->footer(exampleFooter("moec calibrate ./qwen --calibration-text wiki.txt code.jsonl -o "
                                "qwen.profile"));
  command->callback([flags, &chosen] { chosen = [flags] { return runCalibrate(*flags); }; });
}

} // namespace moec::cli
