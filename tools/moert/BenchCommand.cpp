// moert bench: how fast a model runs here, as medians over several prompts, with the slow tail.
#include "runtime/base/InputText.h"
#include "tools/console/Interrupt.h"
#include "tools/console/OutputStream.h"
#include "tools/console/ProgressLine.h"
#include "tools/moert/BenchReport.h"
#include "tools/moert/Command.h"
#include "tools/moert/EngineFlags.h"
#include "tools/moert/Generation.h"
#include "tools/moert/LoadedModel.h"
#include "tools/moert/RunContext.h"

#include "runtime/engine/RandomStream.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace moert::cli {

namespace {

constexpr uint32_t kMaxTokens = 1 << 20, kMaxRepeats = 1000;
/// Of the prompts without a text and of the sampling: every bench computes the same.
constexpr uint64_t kSeed = 1;

struct BenchOptions {
  std::string artifact;
  uint32_t promptTokens = 128, tokens = 64, repeats = 3;
  std::optional<std::string> textFile;
  bool isGiven = false;
  bool asJson = false;
  EngineFlags engine;

  /// Of the material, for one repeat.
  uint64_t partTokens() const { return promptTokens + (isGiven ? uint64_t(tokens) + 1 : 0); }
};

/// The text that prompts are cut from, or as many random ids.
Result<std::vector<int32_t>> readMaterial(const BenchOptions &options, const Model &model) {
  if (options.textFile) {
    MOERT_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, tokenizerOf(model, "--text"));
    MOERT_ASSIGN_OR_RETURN(std::string text, readInput(*options.textFile));
    MOERT_RETURN_IF_ERROR(checkUtf8(text, inputName(*options.textFile)));
    MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer->encode(text, true));
    if (ids.size() < options.partTokens())
      return invalidInput(inputName(*options.textFile), " has ", ids.size(),
                          " tokens, expected at least ", options.partTokens(),
                          options.isGiven ? " (--prompt-tokens and --tokens, and one more)"
                                          : " (--prompt-tokens)");
    return ids;
  }
  if (options.isGiven)
    return invalidInput("--given decodes a text, expected --text beside it");
  RandomStream random(kSeed);
  std::vector<int32_t> ids(uint64_t(options.promptTokens) * options.repeats);
  for (int32_t &id : ids)
    id = static_cast<int32_t>(random.nextBelow(model.artifact().model.vocabularySize));
  return ids;
}

/// Another part of the material for every repeat, since one prompt over and over flatters a cache.
/// The first token comes with the prompt, so one more is asked for than is measured.
GenerationRequest requestOf(const BenchOptions &options, std::span<const int32_t> material,
                            uint32_t repeat) {
  const uint64_t parts = material.size() / options.partTokens();
  auto part = material.subspan(repeat % parts * options.partTokens(), options.partTokens());
  return {.prompt = part.first(options.promptTokens),
          .maxTokens = options.tokens + 1,
          .endTokens = {},
          .given = part.subspan(options.promptTokens)};
}

Result<BenchNumbers> measure(const BenchOptions &options, LoadedModel &loaded,
                             std::span<const int32_t> material, const SamplingOptions &sampling) {
  const std::atomic<bool> &stop = catchInterrupts();
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, loaded.engine->createSession());
  ProgressLine progress("measuring", [](uint64_t done, uint64_t total) {
    return strCat(done, " of ", total, " tokens");
  });
  const uint64_t perRepeat = uint64_t(options.promptTokens) + options.tokens;
  uint64_t done = 0;
  BenchNumbers numbers;
  numbers.decodeNs.reserve(uint64_t(options.tokens) * options.repeats);
  for (uint32_t repeat = 0; repeat < options.repeats; ++repeat) {
    session->reset();
    MOERT_ASSIGN_OR_RETURN(
        Sampler sampler, Sampler::create(sampling, loaded.model->artifact().model.vocabularySize));
    Generation generation(
        *loaded.engine, *session, sampler,
        [&](const RunStep &step, std::span<const LayerProfile>) {
          if (step.phase == RunPhase::kDecode)
            numbers.decodeNs.push_back(step.wallNs);
          progress.update(done += step.tokens, perRepeat * options.repeats);
        },
        stop);
    auto ended = generation.run(requestOf(options, material, repeat),
                                [](int32_t) -> Result<bool> { return true; });
    if (!ended.isOk())
      return ended.status();
    if (*ended == GenerationEnd::kInterrupted)
      return Status(StatusCode::kInterrupted,
                    strCat("interrupted in repeat ", repeat + 1, " of ", options.repeats));
    numbers.repeats.push_back(generation.numbers());
  }
  return numbers;
}

Status bench(const BenchOptions &options) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::open(options.artifact));
  const ModelInfo &info = model->artifact().model;
  MOERT_ASSIGN_OR_RETURN(RunLength length, runLength({options.tokens + 1, std::nullopt},
                                                     options.promptTokens, info.maxPositions));
  MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> material, readMaterial(options, *model));
  // Greedy text of a small model repeats itself, and with it the experts.
  SamplingOptions sampling;
  sampling.temperature = 1;
  sampling.seed = kSeed;

  EngineOptions engine = engineOptionsOf(options.engine);
  engine.contextTokens = length.contextTokens;
  engine.extraBytes = material.size() * sizeof(int32_t) +
                      uint64_t(options.tokens) * options.repeats * sizeof(uint64_t) +
                      options.repeats * sizeof(GenerationNumbers) +
                      Sampler::memoryBytes(sampling, info.vocabularySize);
  MOERT_ASSIGN_OR_RETURN(LoadedModel loaded, loadModel(std::move(model), engine));
  MOERT_ASSIGN_OR_RETURN(BenchNumbers numbers, measure(options, loaded, material, sampling));
  const std::string materialName = options.textFile.value_or("");
  return writeOutput(options.asJson ? benchJson(numbers, materialName, loaded)
                                    : benchText(numbers, materialName, loaded));
}

} // namespace

void addBenchCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<BenchOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command = app.add_subcommand("bench", "Measure speed: medians, spread, slow tail");
  command->add_option("OUT.moe", options->artifact, "The compiled model")
      ->type_name("")
      ->required();
  const std::string group = "Measure";
  addCount(
      *command, "--prompt-tokens", 1, kMaxTokens,
      [options](uint32_t n) { options->promptTokens = n; }, "Tokens of a prompt (default: 128)")
      ->group(group);
  addCount(
      *command, "--tokens", 1, kMaxTokens, [options](uint32_t n) { options->tokens = n; },
      "Tokens to generate per prompt (default: 64)")
      ->group(group);
  command
      ->add_option("--text", options->textFile,
                   "Cut the prompts from this text, another part each time (default: random token "
                   "ids, whose routing is not that of text)")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_flag(
          "--given", options->isGiven,
          "Decode the text itself, as it goes on behind each prompt, instead of tokens drawn "
          "from what the model says: every plan then does the same work")
      ->group(group);
  addCount(
      *command, "--repeat", 1, kMaxRepeats, [options](uint32_t n) { options->repeats = n; },
      "Prompts to measure; the first one starts with an empty cache (default: 3)")
      ->group(group);
  command->add_flag("--json", options->asJson, "Print one JSON object")->group("Output");
  addEngineFlags(*command, options->engine);
  command->footer("Without --given, tokens are drawn at temperature 1 with a fixed seed.\n"
                  "Example: moert bench qwen.moe --text wiki.txt --memory 25% --repeat 5");
  command->callback([options, &chosen] { chosen = [options] { return bench(*options); }; });
}

} // namespace moert::cli
