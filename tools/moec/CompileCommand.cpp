// moec compile, import and emit: from a checkpoint to an artifact; import is compile's first step
// alone, emit its last.
#include "compiler/accuracy/QuickLoss.h"
#include "compiler/commands/Compile.h"
#include "compiler/commands/EmitModule.h"
#include "compiler/commands/WriteArtifact.h"
#include "runtime/base/Size.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/OutputStream.h"
#include "tools/moec/AccuracyFlags.h"
#include "tools/moec/Command.h"
#include "tools/moec/Options.h"
#include "tools/moec/StepProgress.h"

#include <map>
#include <memory>
#include <optional>

using namespace moert;
using mlir::moe::ExpertBits;
using mlir::moe::KvBits;
using mlir::moe::ResidentBits;
using moert::cli::exampleFooter;

namespace moec::cli {

namespace {

// Default widths: 4 bits keep most models usable at a quarter of the size, and more follow where
// the quick loss misses its aim; resident weights are too few for fewer than 8 bits to pay.
constexpr const char *kAuto = "auto", *kSame = "same";
constexpr uint32_t kAutoBits = 4;
constexpr uint32_t kAutoResidentBits = 8;

// Without texts the checkpoint writes some for calibration. Few, since writing takes most of the
// time; SmolLM2-135M as an MoE loses 4.0% with so many, measured on other text (README.md).
constexpr uint64_t kAutoDocuments = 16;
constexpr uint64_t kAutoCalibrationTokens = kAutoDocuments * kCalibrationWindowTokens;

struct CompileFlags {
  CompileRequest request;
  AccuracyFlags accuracy;
  std::string bits = kAuto, downBits = kSame, residentBits = kAuto, headBits = kSame,
              kvBits = kAuto, nested = "on";
  bool isNestedGiven = false;
  std::vector<std::string> budgets;
};

} // namespace

/// The width of the experts, before a search: nullopt without one, 0 for the checkpoint's.
static std::optional<uint32_t> bitsOf(const CompileFlags &flags) {
  if (flags.bits == kAuto)
    return flags.accuracy.loss.empty() ? std::optional(kAutoBits) : std::nullopt;
  return flags.bits == "source" ? 0 : uint32_t(std::stoul(flags.bits));
}

/// Down's own width. A search decides on it where it decides on the others.
static Status takeDownBits(CompileFlags &flags) {
  if (flags.downBits == kSame)
    return {};
  if (flags.bits == kAuto || flags.bits == "source")
    return invalidInput("--down-bits ", flags.downBits, " with --bits ", flags.bits,
                        ", expected --bits 8, 6, 5, 4, 3 or 2 for the other matrices");
  flags.request.passes.downBits = uint32_t(std::stoul(flags.downBits));
  return {};
}

/// An expert with a low copy is one slice besides.
static Status takeLowCopy(CompileFlags &flags) {
  mlir::moe::CompileOptions &passes = flags.request.passes;
  const uint32_t low = passes.lowCopyBits;
  if (low == 0)
    return {};
  const std::string given = strCat("--low-copy ", low);
  if (flags.isNestedGiven && flags.nested == "on")
    return invalidInput("--nested on with ", given,
                        ", expected one of them: an expert's low precision is its first slice or a "
                        "separate copy");
  passes.nested = false;
  const std::optional<uint32_t> bits = bitsOf(flags);
  if (passes.downBits != 0 && low >= passes.downBits)
    return invalidInput(given, " with --down-bits ", passes.downBits,
                        ", expected fewer bits than those");
  if (low >= (bits == 0u ? 32u : bits.value_or(8)))
    return invalidInput(given, " with experts of ", bits ? "" : "at most ", bits.value_or(8),
                        " bits, expected fewer bits than theirs");
  return {};
}

/// Without texts the checkpoint writes them, unless nothing is fitted to inputs.
static Status takeCalibration(CompileFlags &flags) {
  AccuracyFlags &accuracy = flags.accuracy;
  if (accuracy.isUncalibrated && accuracy.isAsked())
    return invalidInput("--no-calibration with ", accuracy.askedBy(), ", expected one of them");
  if (accuracy.isUncalibrated || accuracy.isAsked() || accuracy.quantizer == "nearest" ||
      flags.bits == "source")
    return {};
  accuracy.selfText = kAutoDocuments;
  if (!accuracy.calibrationTokens)
    accuracy.calibrationTokens = kAutoCalibrationTokens;
  flags.request.notes.push_back("the checkpoint writes text to calibrate with; --calibration-text "
                                "uses yours, --no-calibration rounds to nearest");
  return {};
}

static Status runAccurately(const CompileFlags &flags) {
  AccurateCompileRequest request;
  request.checkpointDirectory = flags.request.checkpointDirectory;
  request.outputPath = flags.request.outputPath;
  request.modulePath = flags.request.modulePath;
  request.passes = flags.request.passes;
  request.threads = flags.request.threads;
  request.resume = flags.request.resume;
  request.restart = flags.request.restart;
  MOERT_RETURN_IF_ERROR(takeAccuracyFlags(flags.accuracy, request));
  if (flags.bits == "source" && request.passes.lowCopyBits != 0)
    return invalidInput(flags.accuracy.askedBy(), " with --bits source and --low-copy ",
                        request.passes.lowCopyBits,
                        ", whose low copies are rounded to nearest, expected --bits of 8, 6, 5, 4, "
                        "3 or 2 with it");
  if (flags.bits == "source")
    return invalidInput("--bits source keeps experts unquantized, expected auto, 8, 6, 5, 4, 3 or ",
                        "2 with ", flags.accuracy.askedBy());
  if (flags.bits != kAuto)
    request.bits = uint32_t(std::stoul(flags.bits));
  else if (!request.hasTarget())
    request.bits = kAutoBits;
  request.isWidthRaised = flags.bits == kAuto && !request.hasTarget();
  request.areResidentBitsChosen = flags.residentBits == kAuto;
  if (request.hasTarget() && request.areResidentBitsChosen && flags.headBits != kSame)
    return invalidInput("--head-bits ", flags.headBits, " with ", flags.accuracy.askedBy(),
                        " also needs --resident-bits source, 16, 8 or 4: both widths are given, or "
                        "both are chosen");
  request.notes = flags.request.notes;
  StepProgress progress;
  return compileAccurately(request, sessionWith(progress));
}

static Status runCompile(CompileFlags &flags) {
  static const std::map<std::string, ExpertBits> kBits = {{"source", ExpertBits::kSource},
                                                          {"8", ExpertBits::k8},
                                                          {"6", ExpertBits::k6},
                                                          {"5", ExpertBits::k5},
                                                          {"4", ExpertBits::k4},
                                                          {"3", ExpertBits::k3},
                                                          {"2", ExpertBits::k2}};
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
  static const std::map<std::string, KvBits> kKvBits = {
      {kAuto, KvBits::kAuto}, {"32", KvBits::k32}, {"16", KvBits::k16}, {"8", KvBits::k8}};
  request.passes.kvBits = kKvBits.at(flags.kvBits);
  request.passes.nested = flags.nested == "on";
  MOERT_RETURN_IF_ERROR(takeDownBits(flags));
  MOERT_RETURN_IF_ERROR(takeLowCopy(flags));
  request.passes.budgets = flags.budgets;
  if (flags.accuracy.isSeparatorGiven && flags.accuracy.calibrationTexts.empty() &&
      flags.accuracy.acceptanceTexts.empty())
    return invalidInput("--document-separator without a text, expected --calibration-text or "
                        "--eval-text");
  MOERT_RETURN_IF_ERROR(takeCalibration(flags));
  if (flags.accuracy.isAsked())
    return runAccurately(flags);
  MOERT_RETURN_IF_ERROR(checkTextOptions(flags.accuracy));
  if (flags.bits == kAuto)
    request.notes.push_back(strCat("experts: ", kAutoBits, " bits, as no --bits were given"));
  if (flags.residentBits == kAuto)
    request.notes.push_back(
        strCat("resident weights: ", kAutoResidentBits, " bits, as no --resident-bits were given"));
  StepProgress progress;
  return withResumeHint(compileCheckpoint(request, sessionWith(progress)), request.outputPath);
}

static void addWidthOptions(CLI::App &command, CompileFlags &flags) {
  command
      .add_option(
          "--bits", flags.bits,
          strCat("Width of the experts: auto, source (as in the checkpoint), 8, 6, 5, 4, 3 or 2 "
                 "(default: ",
                 flags.bits, ": what --accuracy-loss allows, otherwise ", kAutoBits,
                 ", or 5 or 6 where the quick loss is above ", kQuickLossAim * 100, "%)"))
      ->check(oneOf({"auto", "source", "8", "6", "5", "4", "3", "2"}))
      ->type_name("BITS");
  command
      .add_option("--down-bits", flags.downBits,
                  strCat("Width of the experts' down projections, if it is not that of --bits: "
                         "same, 8, 6, 5, 4, 3 or 2 (default: ",
                         flags.downBits, ")"))
      ->check(oneOf({"same", "8", "6", "5", "4", "3", "2"}))
      ->type_name("BITS");
  command
      .add_option("--nested", flags.nested,
                  withDefault("on or off. On stores experts in slices, so that fewer bits of "
                              "them can be read; decoding computes them up to about 5% slower at 4 "
                              "bits and 20% at 8. Off stores each in one piece",
                              flags.nested))
      ->check(oneOf({"on", "off"}))
      ->each([&flags](const std::string &) { flags.isNestedGiven = true; })
      ->type_name("SWITCH");
  command
      .add_option("--low-copy", flags.request.passes.lowCopyBits,
                  "Width of a separate copy of each wider expert: 2, 4 or 8. Plans that lower "
                  "experts (moec replan --miss lower:T1:T2, --preset hobbit) read it on a miss; "
                  "others never do. Experts are stored as with --nested off (default: none)")
      ->check(oneOf({"2", "4", "8"}))
      ->type_name("BITS");
  command
      .add_option("--resident-bits", flags.residentBits,
                  strCat("Width of all other matrices: auto, source, 16, 8 or 4 (default: ",
                         flags.residentBits, ": what --accuracy-loss allows, otherwise ",
                         kAutoResidentBits, ")"))
      ->check(oneOf({"auto", "source", "16", "8", "4"}))
      ->type_name("BITS");
  command
      .add_option("--head-bits", flags.headBits,
                  strCat("Width of the output head, where fewer bits cost most accuracy, and of "
                         "an embedding tied to it: same, source, 16, 8 or 4 (default: ",
                         flags.headBits, " as --resident-bits)"))
      ->check(oneOf({"same", "source", "16", "8", "4"}))
      ->type_name("BITS");
  command
      .add_option(
          "--kv-bits", flags.kvBits,
          strCat("Width of keys and values in memory: auto, 32, 16 or 8 (default: ", flags.kvBits,
                 ": 32 if every weight is as in the checkpoint, otherwise 16). What it "
                 "loses is part of every measured loss"))
      ->check(oneOf({"auto", "32", "16", "8"}))
      ->type_name("BITS");
  setGroup(command, "Widths",
           {"--bits", "--down-bits", "--nested", "--low-copy", "--resident-bits", "--head-bits",
            "--kv-bits"});
}

static void addPlanOptions(CLI::App &command, CompileFlags &flags) {
  mlir::moe::CompileOptions &passes = flags.request.passes;
  addBudgets(command, flags.budgets, "to plan for");
  command
      .add_option("--preset", passes.presets,
                  "How to plan: auto searches for the fastest plan if it has calibration and "
                  "--device, and otherwise takes what is best on most models; load-on-demand, lru, "
                  "edgemoe and fate are published systems, for comparison. A plan is made for each "
                  "(default: auto)")
      ->expected(1, 8)
      ->check(someWord())
      ->type_name("NAME");
  command
      .add_option("--device", passes.device,
                  "Device profile to plan for, as moert probe writes it (default: none; "
                  "without one only fate prefetches, as many experts as its paper reads)")
      ->check(someWord())
      ->type_name("F.yaml");
  command
      .add_option("--context", passes.context,
                  "Tokens of context to plan for (default: 2048, or fewer if the model has fewer "
                  "positions)")
      ->check(within(1, uint32_t(1) << 30))
      ->type_name("N");
  setGroup(command, "Plans", {"--memory", "--preset", "--device", "--context"});
}

void addCompileCommand(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<CompileFlags>();
  CompileRequest &request = flags->request;
  CLI::App *command = app.add_subcommand("compile", "Compile a checkpoint into an artifact");
  command
      ->add_option("checkpoint", request.checkpointDirectory,
                   "Folder with config.json and the weights as safetensors, or a GGUF file")
      ->required()
      ->type_name("CKPT");
  addOutput(*command, request.outputPath, "The artifact to write")->type_name("OUT.moe");
  command
      ->add_option("--save-module", request.modulePath,
                   "Save the planned MLIR module too, of which moec emit writes the same artifact")
      ->check(someWord())
      ->type_name("M.mlir");
  setGroup(*command, "Output", {"--save-module"});
  addWidthOptions(*command, *flags);
  addPlanOptions(*command, *flags);
  addAccuracyFlags(*command, flags->accuracy);
  addRunning(*command, request.threads, &request.resume, &request.restart);
  command->footer(exampleFooter(
      "moec compile ./qwen -o qwen.moe                                           # good\n"
      "  moec compile ./qwen -o qwen.moe --bits 4 --resident-bits 4 --head-bits 8  # smaller\n"
      "  moec compile ./qwen -o qwen.moe --bits source --resident-bits source      # exact\n"
      "  moec compile ./qwen -o qwen.moe --accuracy-loss 2% --self-text 400        # proven"));
  command->callback([flags, &chosen] { chosen = [flags] { return runCompile(*flags); }; });
}

void addImportCommand(CLI::App &app, Action &chosen) {
  struct Flags {
    std::string model, output;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("import", "Write the IR of a checkpoint, the first step of compile alone; "
                                   "or of an artifact, which moec emit writes again");
  command->add_option("model", flags->model, "Folder of a checkpoint, a GGUF file, or an artifact")
      ->required()
      ->type_name("CKPT|OUT.moe");
  addOutput(*command, flags->output, "The MLIR module to write")->type_name("M.mlir");
  command->footer(exampleFooter("moec import ./qwen -o qwen.mlir"));
  command->callback([flags, &chosen] {
    chosen = [flags] {
      StepProgress progress;
      const auto writeModule = isCompiled(flags->model) ? importArtifactToFile : importToFile;
      return writeModule(flags->model, flags->output, sessionWith(progress));
    };
  });
}

void addEmitCommand(CLI::App &app, Action &chosen) {
  auto request = std::make_shared<EmitRequest>();
  CLI::App *command = app.add_subcommand(
      "emit", "Write the artifact of a planned module: the last step of compile alone");
  command->add_option("module", request->modulePath, "The planned MLIR module")
      ->required()
      ->type_name("M.mlir");
  addOutput(*command, request->outputPath, "The artifact to write")->type_name("OUT.moe");
  addRunning(*command, request->threads, &request->resume, &request->restart);
  command->footer(exampleFooter("moec emit planned.mlir -o qwen.moe"));
  command->callback([request, &chosen] {
    chosen = [request] {
      StepProgress progress;
      return withResumeHint(emitFromFile(*request, sessionWith(progress)), request->outputPath);
    };
  });
}

} // namespace moec::cli
