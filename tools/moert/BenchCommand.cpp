// moert bench: speed on this machine, as medians over several prompts, with the slow tail.
#include "runtime/base/CheckedMath.h"
#include "runtime/base/InputText.h"
#include "runtime/serving/Generation.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/Interrupt.h"
#include "tools/console/OutputStream.h"
#include "tools/console/ProgressLine.h"
#include "tools/moert/BenchReport.h"
#include "tools/moert/Command.h"
#include "tools/moert/EngineFlags.h"
#include "tools/moert/LoadedModel.h"

#include "runtime/base/RandomStream.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace moert::cli {

namespace {

constexpr uint32_t kMaxTokens = 1 << 20, kMaxRepeats = 1000;
/// Seed of random prompts and of sampling; fixed, so that every bench computes the same.
constexpr uint64_t kSeed = 1;

struct BenchOptions {
  std::string artifact;
  uint32_t promptTokens = 128, tokens = 64, repeats = 3, warmUps = 0;
  std::vector<std::string> textFiles;
  bool isGiven = false;
  bool asJson = false;
  EngineFlags engine;

  uint32_t prompts() const { return warmUps + repeats; }
  /// Tokens of a text that one prompt uses.
  uint64_t partTokens() const { return promptTokens + (isGiven ? uint64_t(tokens) + 1 : 0); }
};

/// Texts that prompts are cut from, at least one.
using Material = std::vector<std::vector<int32_t>>;

Result<std::vector<int32_t>> readText(const BenchOptions &options, const std::string &file,
                                      const Model &model) {
  MOERT_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, tokenizerOf(model, "--text"));
  MOERT_ASSIGN_OR_RETURN(std::string text, readInput(file));
  MOERT_RETURN_IF_ERROR(checkUtf8(text, inputName(file)));
  auto encoded = tokenizer->encode(text, true);
  if (!encoded.isOk())
    return encoded.status().withContext(inputName(file));
  std::vector<int32_t> ids = std::move(encoded).value();
  if (ids.size() < options.partTokens())
    return invalidInput(
        inputName(file), " has ", ids.size(), " tokens, expected at least ", options.partTokens(),
        options.isGiven ? " (--prompt-tokens and --tokens, and one more)" : " (--prompt-tokens)");
  return ids;
}

/// Tokenizes the texts; without texts, draws as many random ids as are needed.
Result<Material> readMaterial(const BenchOptions &options, const Model &model) {
  Material material;
  for (const std::string &file : options.textFiles) {
    MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, readText(options, file, model));
    material.push_back(std::move(ids));
  }
  if (!material.empty())
    return material;
  if (options.isGiven)
    return invalidInput("--given needs a text to decode, expected --text");
  RandomStream random(kSeed);
  material.emplace_back(uint64_t(options.promptTokens) * options.prompts());
  for (int32_t &id : material.front())
    id = static_cast<int32_t>(random.nextBelow(model.artifact().model.vocabularySize));
  return material;
}

/// Takes the texts in turn, and from each text another part every time, spread over its length:
/// repeating one prompt would raise the hit rate, and beginnings of texts are not typical. The
/// first token comes with the prompt, so one token more is generated than is measured.
GenerationRequest requestOf(const BenchOptions &options, const Material &material,
                            uint32_t prompt) {
  const std::span<const int32_t> text = material[prompt % material.size()];
  const uint64_t parts = text.size() / options.partTokens();
  const uint64_t perText = divideUp(options.prompts(), material.size());
  const uint64_t turn = prompt / material.size();
  const uint64_t place = perText < parts ? turn * parts / perText : turn % parts;
  auto part = text.subspan(place * options.partTokens(), options.partTokens());
  const auto beginning = part.first(options.promptTokens);
  return {.prompt = {beginning.begin(), beginning.end()},
          .maxTokens = options.tokens + 1,
          .endTokens = {},
          .given = part.subspan(options.promptTokens)};
}

Result<BenchNumbers> measure(const BenchOptions &options, LoadedModel &loaded,
                             const Material &material, const SamplingOptions &sampling) {
  const std::atomic<bool> &stop = catchInterrupts();
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, loaded.engine->createSession());
  ProgressLine progress("measuring", [](uint64_t done, uint64_t total) {
    return strCat(done, " of ", total, " tokens");
  });
  const uint64_t perPrompt = uint64_t(options.promptTokens) + options.tokens;
  uint64_t done = 0;
  BenchNumbers numbers;
  numbers.decodeNs.reserve(uint64_t(options.tokens) * options.repeats);
  for (uint32_t prompt = 0; prompt < options.prompts(); ++prompt) {
    const bool isMeasured = prompt >= options.warmUps;
    session->reset();
    MOERT_ASSIGN_OR_RETURN(
        Sampler sampler, Sampler::create(sampling, loaded.model->artifact().model.vocabularySize));
    Generation generation(
        *loaded.engine, *session, sampler,
        [&](const RunStep &step, std::span<const LayerProfile>) {
          if (isMeasured && step.phase == RunPhase::kDecode)
            numbers.decodeNs.push_back(step.wallNs);
          progress.update(done += step.tokens, perPrompt * options.prompts());
        },
        stop);
    auto ended = generation.run(requestOf(options, material, prompt),
                                [](int32_t) -> Result<bool> { return true; });
    if (!ended.isOk())
      return ended.status();
    if (*ended == GenerationEnd::kInterrupted)
      return Status(StatusCode::kInterrupted,
                    strCat("interrupted in prompt ", prompt + 1, " of ", options.prompts()));
    if (isMeasured)
      numbers.repeats.push_back(generation.numbers());
  }
  return numbers;
}

Status bench(const BenchOptions &options) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::openText(options.artifact));
  MOERT_RETURN_IF_ERROR(checkContinuesTexts(*model, "moert bench"));
  const ModelInfo &info = model->artifact().model;
  const uint32_t contextTokens = options.promptTokens + options.tokens + 1;
  if (contextTokens > info.maxPositions)
    return invalidInput("--prompt-tokens ", options.promptTokens, ", --tokens ", options.tokens,
                        " and one more, expected at most ", info.maxPositions,
                        " together, the positions of this model");
  MOERT_ASSIGN_OR_RETURN(Material material, readMaterial(options, *model));
  // A small model's greedy text repeats itself, and with it the experts.
  SamplingOptions sampling;
  sampling.temperature = 1;
  sampling.seed = kSeed;

  EngineOptions engine = engineOptionsOf(options.engine);
  engine.contextTokens = contextTokens;
  uint64_t materialTokens = 0;
  for (const std::vector<int32_t> &text : material)
    materialTokens += text.size();
  engine.extraBytes = materialTokens * sizeof(int32_t) +
                      uint64_t(options.tokens) * options.repeats * sizeof(uint64_t) +
                      options.repeats * sizeof(GenerationNumbers) +
                      TokenSequence::memoryBytes(options.promptTokens, options.tokens + 1) +
                      Sampler::memoryBytes(sampling, info.vocabularySize);
  MOERT_ASSIGN_OR_RETURN(LoadedModel loaded,
                         loadModel(std::move(model), engine, options.engine.notices,
                                   {.levers = "a smaller --prompt-tokens or --tokens"}));
  MOERT_ASSIGN_OR_RETURN(BenchNumbers numbers, measure(options, loaded, material, sampling));
  std::string materialName;
  for (const std::string &file : options.textFiles)
    materialName += strCat(materialName.empty() ? "" : ", ", file);
  const BenchMaterial prompts{std::move(materialName), options.isGiven, options.warmUps};
  return writeOutput(options.asJson ? benchJson(numbers, prompts, loaded)
                                    : benchText(numbers, prompts, loaded));
}

} // namespace

void addBenchCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<BenchOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command =
      app.add_subcommand("bench", "Measure speed: medians, spread and slowest tokens");
  command->add_option("artifact", options->artifact, "The compiled model")
      ->type_name("OUT.moe")
      ->required();
  const std::string group = "Measure";
  addCount(
      *command, "--prompt-tokens", 1, kMaxTokens,
      [options](uint32_t n) { options->promptTokens = n; }, "Tokens per prompt (default: 128)")
      ->group(group);
  addCount(
      *command, "--tokens", 1, kMaxTokens, [options](uint32_t n) { options->tokens = n; },
      "Tokens to generate per prompt (default: 64)")
      ->group(group);
  command
      ->add_option(
          "--text", options->textFiles,
          "Cut the prompts from these texts in turn, a different part each time (default: random "
          "token ids, which are routed unlike text)")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_flag(
          "--given", options->isGiven,
          "After each prompt, decode the tokens that follow in the text instead of sampled ones: "
          "every plan then does the same work")
      ->group(group);
  addCount(
      *command, "--repeat", 1, kMaxRepeats, [options](uint32_t n) { options->repeats = n; },
      "Prompts to measure (default: 3)")
      ->group(group);
  addCount(
      *command, "--warm-up", 0, kMaxRepeats, [options](uint32_t n) { options->warmUps = n; },
      "Prompts to decode before measuring. Without any, the first prompt starts with the cache "
      "contents of a fresh start, which forecasts leave out (default: 0)")
      ->group(group);
  command->add_flag("--json", options->asJson, "Print one JSON object")->group("Output");
  addEngineFlags(*command, options->engine);
  command->footer("Without --given, tokens are sampled at temperature 1 with a fixed seed.\n" +
                  exampleFooter("moert bench qwen.moe --text wiki.txt --memory 25% --repeat 5"));
  command->callback([options, &chosen] { chosen = [options] { return bench(*options); }; });
}

} // namespace moert::cli
