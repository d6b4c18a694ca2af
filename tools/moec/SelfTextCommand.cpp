// moec self-text: lets a checkpoint write documents, as .jsonl.
#include "compiler/commands/SelfText.h"
#include "tools/console/HelpFormatter.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <memory>

using namespace moert;
using moert::cli::exampleFooter;

namespace moec::cli {

namespace {

struct SelfTextFlags {
  std::string checkpoint;
  SelfTextRequest request;
};

} // namespace

void addSelfTextCommand(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<SelfTextFlags>(); // Shared by the parser and the chosen action.
  CLI::App *command = app.add_subcommand(
      "self-text", "Let a checkpoint write documents, for calibration and for accepting a loss");
  SelfTextRequest &request = flags->request;
  command->add_option("checkpoint", flags->checkpoint, "Folder of the checkpoint, or a GGUF file")
      ->required()
      ->type_name("CKPT");
  command->add_option("-n,--documents", request.documents, "Documents to write")
      ->required()
      ->check(within(1, uint64_t(1) << 24))
      ->type_name("N");
  addOutput(*command, request.outputPath,
            "The file to write: one document per line, {\"text\": \"...\", \"ids\": [...]}")
      ->check(someWord())
      ->type_name("OUT.jsonl");
  command
      ->add_option("--seed", request.seed, withDefault("Random seed of the sampling", request.seed))
      ->check(within(0, UINT64_MAX))
      ->type_name("S");
  command
      ->add_option("--document-tokens", request.documentTokens,
                   withDefault("Longest document, in tokens", request.documentTokens))
      ->check(within(2, uint64_t(1) << 20))
      ->type_name("N");
  command->add_flag_callback(
      "--text-only", [flags] { flags->request.hasIds = false; },
      "Write no token ids, for another tokenizer");
  setGroup(*command, "Documents", {"--documents", "--seed", "--document-tokens", "--text-only"});
  addRunning(*command, request.threads, &request.resume, &request.restart);
  command->footer("Documents are sampled at temperature 1; the same seed gives the same documents. "
                  "Their ids are "
                  "the sampled tokens: tokenizing the text often gives others.\n" +
                  exampleFooter("moec self-text ./qwen -n 400 --seed 1 -o calibration.jsonl"));
  command->callback([flags, &chosen] {
    chosen = [flags]() -> Status {
      StepProgress progress;
      return selfTextOfCheckpoint(flags->checkpoint, flags->request, sessionWith(progress));
    };
  });
}

} // namespace moec::cli
