// moert run: continues a prompt, or answers the input of an encoder, and prints the text as it is
// generated.
#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/ResidentMemory.h"
#include "runtime/base/SystemLimits.h"
#include "runtime/engine/Footprint.h"
#include "runtime/format/WeightsChecksum.h"
#include "runtime/serving/TextStream.h"
#include "runtime/text/tokenizer/TokenIds.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/Interrupt.h"
#include "tools/console/OutputStream.h"
#include "tools/moert/BudgetFollower.h"
#include "tools/moert/Command.h"
#include "tools/moert/EngineFlags.h"
#include "tools/moert/InputFlags.h"
#include "tools/moert/Numbers.h"
#include "tools/moert/RunContext.h"
#include "tools/moert/SamplingFlags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

namespace moert::cli {

namespace {

struct RunOptions {
  std::string artifact;
  std::optional<std::string> promptText, promptFile, idsFile;
  InputFlags input;
  LengthRequest length;
  std::vector<std::string> stopTexts;
  bool ignoresEos = false;
  SamplingFlags sampling;
  std::optional<std::string> profilePath;
  bool asJson = false;
  EngineFlags engine;
  std::vector<std::string> furtherWords; // furtherOptions() of the command.
};

/// What follows from the command line and the artifact, before anything large is loaded.
struct PreparedRun {
  std::unique_ptr<Model> model;
  const Tokenizer *tokenizer = nullptr; // nullptr: ids are printed.
  std::vector<int32_t> prompt;
  std::vector<int32_t> input; // The encoder has it; the prompt is the decoder's then.
  uint64_t promptTextBytes = 0;
  RunLength length;
  SamplingOptions sampling;
  StopText stops;
  std::optional<uint64_t> promptChecksum; // If the prompt is text.
  uint64_t availableBytes = 0;            // Memory that the run may take, before it is loaded.
};

/// What a run records for its profile; empty without one.
struct RunRecords {
  RunProfile profile;
  RouteRecord routes;
  ResidentMemory memory;
  uint64_t memoryBytes = 0, memoryAtNs = 0; // The last sample, and the end of its step.

  /// Steps of a millisecond are sampled every 20, so that sampling costs less than 0.1%.
  static constexpr uint64_t kSampleNs = 20'000'000;

  void record(RunStep step, std::span<const LayerProfile> layers) {
    const uint64_t endNs = step.beginNs + step.wallNs;
    if (memoryBytes == 0 || endNs - memoryAtNs >= kSampleNs) {
      memoryBytes = memory.bytes();
      memoryAtNs = endNs;
    }
    step.residentBytes = memoryBytes;
    profile.record(step, layers);
  }
};

Status readPrompt(const RunOptions &options, PreparedRun &run) {
  const ModelInfo &info = run.model->artifact().model;
  if (options.idsFile) {
    MOERT_ASSIGN_OR_RETURN(std::string text, readInput(*options.idsFile));
    MOERT_ASSIGN_OR_RETURN(run.prompt,
                           parseTokenIds(text, info.vocabularySize, inputName(*options.idsFile)));
    if (run.prompt.empty())
      return invalidInput(inputName(*options.idsFile), " has no token ids, expected at least one");
    run.promptTextBytes = text.size();
  } else {
    MOERT_ASSIGN_OR_RETURN(run.tokenizer,
                           tokenizerOf(*run.model, "a prompt of text; --ids FILE takes token ids"));
    std::string text, name = "--prompt";
    if (options.promptText) {
      text = *options.promptText;
    } else {
      MOERT_ASSIGN_OR_RETURN(text, readInput(*options.promptFile));
      name = inputName(*options.promptFile);
    }
    MOERT_RETURN_IF_ERROR(checkUtf8(text, name));
    Result<std::vector<int32_t>> ids = run.tokenizer->encode(text, true);
    if (!ids.isOk())
      return ids.status().withContext(name);
    run.prompt = std::move(ids).value();
    run.promptTextBytes = text.size();
    run.promptChecksum = checksum64(std::as_bytes(std::span(text)));
  }
  if (run.prompt.empty() && info.bosToken)
    run.prompt.push_back(*info.bosToken);
  if (run.prompt.empty())
    return invalidInput("the prompt is empty and this model has no token that begins a text, "
                        "expected at least one token");
  return {};
}

Result<PreparedRun> prepare(const RunOptions &options) {
  if (!options.promptText && !options.promptFile && !options.idsFile)
    return invalidInput("run: no prompt, expected -p TEXT, -f FILE or --ids FILE");
  PreparedRun run;
  MOERT_ASSIGN_OR_RETURN(run.sampling, samplingOptionsOf(options.sampling));
  MOERT_ASSIGN_OR_RETURN(run.stops, StopText::create(options.stopTexts));
  for (const std::string &stop : options.stopTexts)
    MOERT_RETURN_IF_ERROR(checkUtf8(stop, "--stop"));
  if (options.profilePath)
    MOERT_RETURN_IF_ERROR(
        checkWritable(*options.profilePath, {options.artifact, options.promptFile.value_or(""),
                                             options.idsFile.value_or("")}));

  MOERT_ASSIGN_OR_RETURN(run.model, Model::openText(options.artifact));
  const ModelInfo &info = run.model->artifact().model;
  // Refuses bad options before the prompt is read.
  MOERT_RETURN_IF_ERROR(check(run.sampling, info.vocabularySize));
  run.tokenizer = run.model->tokenizer();
  if (!options.stopTexts.empty() && !run.tokenizer)
    return tokenizerOf(*run.model, "--stop").status();
  MOERT_RETURN_IF_ERROR(
      checkInputFlags(options.input, *run.model, options.profilePath.has_value()));
  MOERT_RETURN_IF_ERROR(readPrompt(options, run));
  MOERT_ASSIGN_OR_RETURN(
      run.input, takeInput(options.input, *run.model, options.idsFile.has_value(), run.prompt));
  MOERT_ASSIGN_OR_RETURN(run.length,
                         runLength(options.length, run.prompt.size(), info.maxPositions));
  return run;
}

/// Upper bound: one step per prompt token, in case the budget only allows chunks of one token.
uint64_t profileSteps(const RunOptions &options, const PreparedRun &run) {
  return options.profilePath ? run.prompt.size() + run.length.maxTokens : 0;
}

EngineOptions engineOptions(const RunOptions &options, const PreparedRun &run) {
  const ModelInfo &info = run.model->artifact().model;
  EngineOptions engine = engineOptionsOf(options.engine);
  engine.contextTokens =
      std::max(run.length.contextTokens, static_cast<uint32_t>(run.input.size()));
  // Generated tokens come one per step.
  if (engine.prefillChunk)
    engine.prefillChunk = std::min(*engine.prefillChunk, static_cast<uint32_t>(run.prompt.size()));
  const uint64_t textBytes = TextStream::memoryBytes(run.length.maxTokens);
  const uint64_t tokenBytes = TokenSequence::memoryBytes(0, run.length.maxTokens);
  engine.extraBytes = run.promptTextBytes +
                      (run.prompt.size() + run.input.size()) * sizeof(int32_t) + textBytes +
                      tokenBytes + (options.asJson ? 2 * (textBytes + tokenBytes) : 0) +
                      Sampler::memoryBytes(run.sampling, info.vocabularySize) +
                      RunProfile::memoryBytes(profileSteps(options, run), info.layers) +
                      RouteRecord::memoryBytes(run.model->artifact(), profileSteps(options, run));
  return engine;
}

/// Says that an instruction-tuned model gets a prompt without its chat template, unless the prompt
/// has special tokens, as a rendered one does.
void noteTemplate(const RunOptions &options, const PreparedRun &run) {
  const std::optional<Chat> &chat = run.model->artifact().chat;
  const bool isText = options.promptText || options.promptFile;
  if (options.engine.notices.isQuiet || !isText || !chat || chat->templates.empty())
    return;
  const size_t first = run.prompt[0] == run.model->artifact().model.bosToken ? 1 : 0;
  for (size_t i = first; i < run.prompt.size(); ++i)
    if (run.tokenizer->isSpecial(run.prompt[i]))
      return;
  printError("note: this model has a chat template, and moert run applies none; moert chat does");
}

/// Without a limit on the tokens or the context, the context is what the budget has memory for.
void fitContext(const RunOptions &options, PreparedRun &run) {
  const uint32_t promptTokens = static_cast<uint32_t>(run.prompt.size());
  auto setContext = [&](uint32_t tokens) {
    run.length.contextTokens = std::max(tokens, promptTokens + 1);
    run.length.maxTokens = run.length.contextTokens - promptTokens;
    return engineOptions(options, run);
  };
  (void)setContext(contextWithinBudget(*run.model, run.length.contextTokens, setContext));
}

/// The options that were given, as words of a command line, without the prompt and the output and
/// without those whose values the profile has under keys of their own.
std::vector<std::string> furtherOptions(const CLI::App &command) {
  constexpr std::string_view kOthers[] = {
      "artifact",  "--prompt",  "--file", "--ids",     "--tokens", "--context",     "--preset",
      "--threads", "--profile", "--json", "--verbose", "--quiet",  "--memory-table"};
  std::vector<std::string> words;
  for (const CLI::Option *option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || std::ranges::find(kOthers, name) != std::end(kOthers))
      continue;
    if (option->get_expected_max() == 0) // A flag.
      words.push_back(name);
    else
      for (const std::string &value : option->results())
        words.push_back(strCat(name, "=", value));
  }
  return words;
}

/// The same with the seed that was drawn, if there is one.
std::vector<std::string> wordsToRepeat(const RunOptions &options, const PreparedRun &run) {
  std::vector<std::string> words = options.furtherWords;
  if (!options.sampling.seed && run.sampling.temperature > 0)
    words.push_back(strCat("--seed=", run.sampling.seed));
  return words;
}

/// A file that can be read again; standard input cannot.
std::optional<std::string> promptFileOf(const RunOptions &options) {
  const std::optional<std::string> &file = options.idsFile ? options.idsFile : options.promptFile;
  return file == "-" ? std::nullopt : file;
}

RunFacts factsOf(const RunOptions &options, const PreparedRun &run, const LoadedModel &loaded,
                 const std::vector<RunBudget> &budgets, const GenerationNumbers &numbers,
                 const char *end) {
  RunFacts facts;
  facts.program = "moert " MOERT_VERSION;
  facts.weightsChecksum = weightsChecksum(loaded.model->artifact());
  facts.promptChecksum = run.promptChecksum;
  facts.promptFile = promptFileOf(options);
  facts.artifact = loaded.model->path().substr(loaded.model->path().rfind('/') + 1);
  facts.plan = planOf(loaded).name;
  facts.preset = planOf(loaded).preset;
  facts.io = loaded.engine->ioDescription();
  facts.isa = loaded.engine->kernels().name;
  facts.threads = loaded.options.threads;
  facts.cores = availableCores();
  facts.prefillChunkTokens = loaded.engine->prefillChunk();
  facts.contextTokens = loaded.options.contextTokens;
  facts.promptTokens = numbers.promptTokens;
  facts.generatedTokens = numbers.generatedTokens;
  facts.options = wordsToRepeat(options, run);
  facts.end = end;
  facts.budgetBytes = loaded.account.budgetBytes;
  facts.accountedBytes = loaded.account.totalBytes();
  facts.peakMemoryBytes = peakMemoryBytes();
  facts.availableBytes = run.availableBytes;
  facts.poolPages = loaded.account.poolPages;
  facts.budgets = budgets;
  const Artifact &artifact = loaded.model->artifact();
  facts.kvBytesPerToken = kvBytesPerToken(artifact);
  for (const Program &program : artifact.programs)
    if (program.name == "decode")
      facts.partWeightBytes = weightBytesOf(program, artifact.residents);
  return facts;
}

Status writeProfile(const std::string &path, const RunFacts &facts, const RunRecords &records) {
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  MOERT_RETURN_IF_ERROR(records.profile.write(file, facts, records.routes));
  return file.commit();
}

Status printJson(const TextStream &text, bool hasTokenizer, const char *end, uint64_t seed,
                 const Generation &generation, const LoadedModel &loaded) {
  std::string out;
  JsonWriter json(out);
  json.beginObject();
  if (hasTokenizer)
    json.key("text").string(text.text());
  json.key("ids").numbers(generation.tokens().generated());
  json.key("end").string(end);
  json.key("seed").number(seed);
  writeNumbers(json, generation.numbers(), loaded);
  json.endObject();
  out += '\n';
  return writeOutput(out);
}

/// After the last token: writes the profile, the results and the figures.
Status finishRun(const RunOptions &options, const PreparedRun &run, const LoadedModel &loaded,
                 const RunRecords &records, const std::vector<RunBudget> &budgets,
                 const Generation &generation, TextStream &text,
                 const Result<GenerationEnd> &ended) {
  const bool isClosed = isClosedOutput(ended.status());
  if (!ended.isOk() && !isClosed)
    return ended.status();
  const char *end = isClosed ? "closed" : nameOf(*ended);
  Status shown = ended.status();
  if (shown.isOk() && !options.asJson && !text.isEmpty() && (!run.tokenizer || isOutputTerminal()))
    shown = writeOutput("\n");
  if (options.profilePath)
    MOERT_RETURN_IF_ERROR(
        writeProfile(*options.profilePath,
                     factsOf(options, run, loaded, budgets, generation.numbers(), end), records));
  if (shown.isOk() && options.asJson)
    shown = printJson(text, run.tokenizer != nullptr, end, run.sampling.seed, generation, loaded);
  MOERT_RETURN_IF_ERROR(shown);
  const std::string endText =
      strCat(end, run.sampling.temperature > 0 ? strCat(", seed ", run.sampling.seed) : "");
  if (options.engine.notices.isVerbose) {
    writeError(strCat("\nend        ", endText, "\n"));
    printNumbers(generation.numbers(), loaded);
  } else if (!options.engine.notices.isQuiet) {
    writeError("\n");
    printBriefNumbers(generation.numbers(), loaded, endText);
  }
  if (*ended == GenerationEnd::kInterrupted)
    return Status(StatusCode::kInterrupted, "interrupted");
  return {};
}

Status runModel(const RunOptions &options) {
  MOERT_ASSIGN_OR_RETURN(PreparedRun run, prepare(options));
  const ModelInfo info = run.model->artifact().model;
  run.availableBytes = availableMemoryBytes();
  if (options.length.tokens == kNoLimit && !options.length.context)
    fitContext(options, run);
  noteTemplate(options, run);
  const EngineOptions engine = engineOptions(options, run);
  MOERT_ASSIGN_OR_RETURN(LoadedModel loaded,
                         loadModel(std::move(run.model), engine, options.engine.notices,
                                   {.levers = "a smaller --context or -n"}));
  const std::atomic<bool> &stop = catchInterrupts();
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, loaded.engine->createSession());
  MOERT_RETURN_IF_ERROR(
      computeInput(options.input, run.input, run.prompt, *loaded.engine, *session));
  MOERT_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(run.sampling, info.vocabularySize));
  RunRecords records{RunProfile(profileSteps(options, run), info.layers),
                     RouteRecord(loaded.model->artifact(), profileSteps(options, run)),
                     {},
                     0,
                     0};
  TextStream text(run.tokenizer, std::move(run.stops), run.length.maxTokens,
                  options.asJson ? TextStream::Write{} : writeOutput, spanTokens(*loaded.model));
  MOERT_ASSIGN_OR_RETURN(const uint64_t smallest, smallestBudget(*loaded.model, engine));
  BudgetFollower follower(*loaded.engine, smallest);
  Generation::PrepareStep follow;
  if (options.engine.followsMemory)
    follow = [&] { return follower.follow(session->length()); };
  Generation generation(
      *loaded.engine, *session, sampler,
      [&](const RunStep &step, std::span<const LayerProfile> layers) {
        if (options.profilePath)
          records.record(step, layers);
      },
      stop, monotonicNs, follow);
  if (options.profilePath)
    generation.recordRoutes(records.routes);
  GenerationRequest request = {
      .prompt = std::move(run.prompt),
      .maxTokens = run.length.maxTokens,
      .endTokens = {},
      .fillsContext = run.length.isContextBound,
      .ngramStop = options.sampling.ngramStop,
  };
  if (!options.ignoresEos)
    request.endTokens = info.eosTokens;
  Result<GenerationEnd> ended = generate(generation, std::move(request), text);
  loaded.account = follower.largestAccount();
  return finishRun(options, run, loaded, records, follower.changes(), generation, text, ended);
}

void addPromptOptions(CLI::App &command, RunOptions &options) {
  const std::string group = "Prompt, one of";
  CLI::Option *text = command.add_option("-p,--prompt,text", options.promptText,
                                         "Text of the prompt, with or without -p");
  CLI::Option *file =
      command.add_option("-f,--file", options.promptFile,
                         "Read the prompt from a file, unchanged; - is standard input");
  CLI::Option *ids = command.add_option(
      "--ids", options.idsFile,
      "Read the prompt as token ids, separated by white space; - is standard input");
  text->type_name("TEXT")->group(group)->excludes(file)->excludes(ids);
  file->type_name("FILE")->group(group)->excludes(ids);
  ids->type_name("FILE")->group(group);
}

void addGenerationOptions(CLI::App &command, RunOptions &options) {
  const std::string group = "Generation";
  addTokens(
      command, 0, [&options](uint32_t n) { options.length.tokens = n; },
      strCat("Most tokens to generate; -1: until the model ends the text or the context is full "
             "(default: ",
             kDefaultTokens, ", or what is left of the context if that is less)"))
      ->group(group);
  command
      .add_option("--stop", options.stopTexts,
                  "End the text before any of these, which are not printed; special tokens such as "
                  "<|im_end|> match as well")
      ->type_name("TEXT")
      ->group(group);
  command
      .add_flag("--ignore-eos", options.ignoresEos,
                "Continue after the token with which the model ends a text")
      ->group(group);
  addCount(
      command, "--context", 1, kMostTokens, [&options](uint32_t n) { options.length.context = n; },
      strCat("Tokens that the KV cache has room for (default: those of the prompt and -n; ",
             kDefaultContext, " with -n -1)"))
      ->group(group);
}

} // namespace

void addRunCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<RunOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command = app.add_subcommand("run", "Continue a prompt");
  command->add_option("artifact", options->artifact, "The compiled model")
      ->type_name("OUT.moe")
      ->required();
  addPromptOptions(*command, *options);
  addInputFlags(*command, options->input);
  addGenerationOptions(*command, *options);
  addSamplingFlags(*command, options->sampling);
  command
      ->add_option(
          "--profile", options->profilePath,
          "Write a profile as JSON: times, bytes read, hits and misses of every step and layer")
      ->type_name("RUN.json")
      ->group("Output");
  command
      ->add_flag("--json", options->asJson,
                 "Print one JSON object at the end instead of text as it is generated")
      ->group("Output");
  addEngineFlags(*command, options->engine, FollowMemory::kOffered);
  command->footer("An artifact without a tokenizer takes --ids FILE and prints token ids.\n" +
                  exampleFooter("moert run qwen.moe -p \"The old man\" -n 64 --memory 6GiB --temp "
                                "0.7 --top-p 0.9"));
  command->callback([options, command, &chosen] {
    options->furtherWords = furtherOptions(*command);
    chosen = [options] { return runModel(*options); };
  });
}

} // namespace moert::cli
