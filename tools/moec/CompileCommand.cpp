// moec compile, import and emit: the way from a checkpoint to an artifact, whole and in its first
// and last step.
#include "compiler/commands/Compile.h"
#include "runtime/base/Size.h"
#include "runtime/base/SystemLimits.h"
#include "tools/console/OutputStream.h"
#include "tools/moec/AccuracyFlags.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <map>
#include <memory>

using namespace moert;
using mlir::moe::ExpertBits;
using mlir::moe::ResidentBits;
using moert::cli::printError;

namespace moec::cli {

namespace {

// What is done when nothing is asked for: 4 bits keep most models usable at a quarter of the size,
// and resident weights are too few for fewer than 8 to pay.
constexpr const char *kAuto = "auto", *kSame = "same";
constexpr uint32_t kAutoBits = 4;
constexpr uint32_t kAutoResidentBits = 8;

struct CompileFlags {
  CompileRequest request;
  AccuracyFlags accuracy;
  std::string bits = kAuto, residentBits = kAuto, headBits = kSame, nested = "on";
  std::vector<std::string> budgets;
};

} // namespace

static void addEmitOptions(CLI::App &command, std::string &outputPath, unsigned &threads,
                           bool &resume) {
  threads = availableCores();
  command.add_option("-o,--output", outputPath, "The artifact to write")
      ->required()
      ->type_name("OUT.moe");
  command.add_flag("--resume", resume, "Go on with what a command that did not finish left");
  command
      .add_option("--threads", threads,
                  "Threads that read and quantize (default: the cores that this process may use)")
      ->check(within(1, 1024))
      ->type_name("N");
}

static Status runAccurately(const CompileFlags &flags) {
  AccurateCompileRequest request;
  request.checkpointDirectory = flags.request.checkpointDirectory;
  request.outputPath = flags.request.outputPath;
  request.passes = flags.request.passes;
  request.threads = flags.request.threads;
  request.resume = flags.request.resume;
  MOERT_RETURN_IF_ERROR(takeAccuracyFlags(flags.accuracy, request));
  if (flags.bits == "source")
    return invalidInput("--bits source keeps experts as they are, expected auto, 8, 6, 4, 3 or 2 "
                        "beside ",
                        flags.accuracy.askedBy());
  if (flags.bits != kAuto)
    request.bits = uint32_t(std::stoul(flags.bits));
  else if (!request.target)
    request.bits = kAutoBits;
  request.areResidentBitsChosen = flags.residentBits == kAuto;
  if (request.target && request.areResidentBitsChosen && flags.headBits != kSame)
    return invalidInput("--head-bits ", flags.headBits, " beside ", flags.accuracy.askedBy(),
                        " without --resident-bits source, 16, 8 or 4: it chooses both, or neither");
  StepProgress progress;
  return compileAccurately(request, sessionWith(progress));
}

static Status runCompile(CompileFlags &flags) {
  static const std::map<std::string, ExpertBits> kBits = {
      {"source", ExpertBits::kSource}, {"8", ExpertBits::k8}, {"6", ExpertBits::k6},
      {"4", ExpertBits::k4},           {"3", ExpertBits::k3}, {"2", ExpertBits::k2}};
  static const std::map<std::string, ResidentBits> kResidentBits = {
      {"source", ResidentBits::kSource},
      {"16", ResidentBits::k16},
      {"8", ResidentBits::k8},
      {"4", ResidentBits::k4}};
  CompileRequest &request = flags.request;
  request.passes.bits = kBits.at(flags.bits == kAuto ? strCat(kAutoBits) : flags.bits);
  request.passes.residentBits = kResidentBits.at(
      flags.residentBits == kAuto ? strCat(kAutoResidentBits) : flags.residentBits);
  request.passes.headBits =
      flags.headBits == kSame ? ResidentBits::kSame : kResidentBits.at(flags.headBits);
  request.passes.nested = flags.nested == "on";
  request.passes.budgets = flags.budgets;
  if (flags.accuracy.isAsked())
    return runAccurately(flags);
  if (flags.bits == kAuto)
    printError(strCat("experts: ", kAutoBits, " bits, as no --bits were given"));
  if (flags.residentBits == kAuto)
    printError(
        strCat("resident weights: ", kAutoResidentBits, " bits, as no --resident-bits were given"));
  StepProgress progress;
  return withResumeHint(compileCheckpoint(request, sessionWith(progress)), request.outputPath);
}

static void addPlanOptions(CLI::App &command, mlir::moe::CompileOptions &passes) {
  command
      .add_option(
          "--preset", passes.presets,
          "How to plan: auto searches where calibration and --device say what to search with, "
          "and takes what is best on most models otherwise; the others are published "
          "systems and what they are compared with; several give a plan each (default: auto)")
      ->expected(1, 8)
      ->check(someWord())
      ->type_name("{auto|load-on-demand|lru|edgemoe|fate}...");
  command
      .add_option("--device", passes.device,
                  "Device profile to plan for; moert probe writes one (default: none, and nothing "
                  "is guessed ahead but by fate, as much as its paper reads)")
      ->check(someWord())
      ->type_name("F.yaml");
}

void addCompileCommand(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App *command = app.add_subcommand("compile", "Compile a checkpoint into an artifact");
  command
      ->add_option("checkpoint", flags->request.checkpointDirectory,
                   "Directory with config.json and the weights as safetensors")
      ->required()
      ->type_name("CKPT");
  addEmitOptions(*command, flags->request.outputPath, flags->request.threads,
                 flags->request.resume);
  command
      ->add_option("--bits", flags->bits,
                   strCat("Width of the experts (default: ", flags->bits,
                          ": what --accuracy-loss allows, ", kAutoBits, " without it)"))
      ->check(oneOf({"auto", "source", "8", "6", "4", "3", "2"}))
      ->type_name("auto|source|8|6|4|3|2");
  command
      ->add_option(
          "--nested", flags->nested,
          withDefault("Store experts in bit planes, so that fewer bits of them can be read; that "
                      "slows products of one row by up to about 5% at 4 bits, about 20% at 8. off: "
                      "2, 4 and 8 bits in one piece",
                      flags->nested))
      ->check(oneOf({"on", "off"}))
      ->type_name("on|off");
  command
      ->add_option(
          "--resident-bits", flags->residentBits,
          strCat("Width of everything else that is a matrix (default: ", flags->residentBits,
                 ": what --accuracy-loss allows, ", kAutoResidentBits, " without it)"))
      ->check(oneOf({"auto", "source", "16", "8", "4"}))
      ->type_name("auto|source|16|8|4");
  command
      ->add_option("--head-bits", flags->headBits,
                   strCat("Width of the matrix that logits come from, the one that fewer bits hurt "
                          "most, and of the embedding where that is the same (default: ",
                          flags->headBits, ", as --resident-bits)"))
      ->check(oneOf({"same", "source", "16", "8", "4"}))
      ->type_name("same|source|16|8|4");
  command
      ->add_option("--memory", flags->budgets,
                   "Budgets to plan for: 512MiB, 6GiB, 25% of the experts")
      ->expected(1, 64)
      ->check(someSize())
      ->type_name("SIZE...");
  addPlanOptions(*command, flags->request.passes);
  addAccuracyFlags(*command, flags->accuracy);
  command->add_option("--context", flags->request.passes.context, "Tokens of context to plan for")
      ->check(within(1, uint32_t(1) << 30))
      ->type_name("N");
  command->callback([flags, &chosen] { chosen = [flags] { return runCompile(*flags); }; });
}

void addImportCommand(CLI::App &app, Action &chosen) {
  struct Flags {
    std::string checkpoint, output;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("import", "Write a checkpoint's IR: the first step alone");
  command->add_option("checkpoint", flags->checkpoint, "Directory of the checkpoint")
      ->required()
      ->type_name("CKPT");
  command->add_option("-o,--output", flags->output, "The module to write")
      ->required()
      ->type_name("M.mlir");
  command->callback([flags, &chosen] {
    chosen = [flags] {
      StepProgress progress;
      return importToFile(flags->checkpoint, flags->output, sessionWith(progress));
    };
  });
}

void addEmitCommand(CLI::App &app, Action &chosen) {
  auto request = std::make_shared<EmitRequest>();
  CLI::App *command =
      app.add_subcommand("emit", "Write a planned module's artifact: the last step alone");
  command->add_option("module", request->modulePath, "The planned module")
      ->required()
      ->type_name("M.mlir");
  addEmitOptions(*command, request->outputPath, request->threads, request->resume);
  command->callback([request, &chosen] {
    chosen = [request] {
      StepProgress progress;
      return withResumeHint(emitFromFile(*request, sessionWith(progress)), request->outputPath);
    };
  });
}

} // namespace moec::cli
