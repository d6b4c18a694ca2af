// moert logits: computes the logits of given tokens and writes them to a file as tensors.
#include "runtime/base/InputText.h"
#include "runtime/engine/Footprint.h"
#include "runtime/text/tokenizer/TokenIds.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/Interrupt.h"
#include "tools/console/OutputStream.h"
#include "tools/console/ProgressLine.h"
#include "tools/moert/Command.h"
#include "tools/moert/EngineFlags.h"
#include "tools/moert/LoadedModel.h"
#include "tools/moert/LogitsFile.h"
#include "tools/moert/RunContext.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

namespace moert::cli {

namespace {

/// Rows per product with the output head, whose weights are read once for all of them.
constexpr uint32_t kLogitsRows = 16;

/// A token id takes its text, which is read whole, and its number.
constexpr uint64_t kIdsBytes = 12 + sizeof(int32_t);

struct LogitsOptions {
  std::string artifact, idsFile, output;
  std::optional<std::string> decoderIdsFile;
  uint32_t prefixTokens = 0;
  EngineFlags engine;
};

/// The largest chunk that an account can yield: a small budget only makes it smaller.
uint32_t largestChunk(const Model &model, const EngineOptions &options, size_t tokens) {
  if (computesWholeCalls(model.artifact()))
    return static_cast<uint32_t>(tokens);
  uint32_t chunk = 1;
  for (const Plan &plan : model.artifact().plans)
    chunk = std::max(chunk, plan.prefillChunk);
  return static_cast<uint32_t>(std::min<size_t>(options.prefillChunk.value_or(chunk), tokens));
}

/// input: of the encoder, empty without one.
Status computeLogits(LoadedModel &loaded, std::span<const int32_t> input, uint32_t prefixTokens,
                     std::span<const int32_t> ids, LogitsFile &file) {
  const std::atomic<bool> &stop = catchInterrupts();
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, loaded.engine->createSession());
  if (prefixTokens > 0)
    MOERT_RETURN_IF_ERROR(loaded.engine->setPrefix(*session, prefixTokens));
  if (!input.empty()) {
    MOERT_RETURN_IF_ERROR(loaded.engine->encode(*session, input, file));
    MOERT_RETURN_IF_ERROR(file.endEncoder());
  }
  ProgressLine progress("computing", [](uint64_t done, uint64_t total) {
    return strCat(done, " of ", total, " tokens");
  });
  const uint32_t chunk = loaded.engine->prefillChunk();
  for (uint32_t begin = 0; begin < ids.size(); begin += chunk) {
    if (stop.load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted,
                    strCat("interrupted after ", begin, " of ", ids.size(), " tokens"));
    progress.update(begin, ids.size());
    auto tokens = ids.subspan(begin, std::min<size_t>(chunk, ids.size() - begin));
    SessionTokens batch = {session.get(), tokens, LogitsWanted::kAll, true};
    file.beginChunk(begin, static_cast<uint32_t>(tokens.size()));
    MOERT_RETURN_IF_ERROR(loaded.engine->step({&batch, 1}, file));
    MOERT_RETURN_IF_ERROR(file.endChunk());
  }
  return file.commit();
}

Result<std::vector<int32_t>> readIds(const ModelInfo &info, const std::string &file) {
  MOERT_ASSIGN_OR_RETURN(std::string text, readInput(file));
  MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                         parseTokenIds(text, info.vocabularySize, inputName(file)));
  if (ids.empty())
    return invalidInput(inputName(file), " has no token ids, expected at least one");
  if (ids.size() > info.maxPositions)
    return invalidInput(inputName(file), " has ", ids.size(), " token ids, expected at most ",
                        info.maxPositions, ", the positions of this model");
  return ids;
}

Status writeLogits(const LogitsOptions &options) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::openText(options.artifact));
  const Artifact &artifact = model->artifact();
  const bool hasEncoder = findProgram(artifact.programs, programs::kEncode) != nullptr;
  if (hasEncoder != options.decoderIdsFile.has_value())
    return invalidInput(options.artifact,
                        hasEncoder ? " has an encoder, expected --decoder-ids FILE besides --ids, "
                                     "the encoder's input"
                                   : " has no encoder, expected no --decoder-ids");
  MOERT_RETURN_IF_ERROR(checkWritable(
      options.output, {options.artifact, options.idsFile, options.decoderIdsFile.value_or("")}));
  MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, readIds(artifact.model, options.idsFile));
  std::vector<int32_t> input;
  if (hasEncoder) {
    input = std::move(ids);
    MOERT_ASSIGN_OR_RETURN(ids, readIds(artifact.model, *options.decoderIdsFile));
  }

  if (options.prefixTokens > ids.size())
    return invalidInput("--prefix ", options.prefixTokens, ": ", inputName(options.idsFile),
                        " has ", ids.size(), " token ids");
  EngineOptions engine = engineOptionsOf(options.engine);
  engine.contextTokens = static_cast<uint32_t>(std::max(ids.size(), input.size()));
  engine.logitsRows = static_cast<uint32_t>(std::min<size_t>(kLogitsRows, ids.size()));
  const LogitsShape shape = logitsShapeOf(artifact, ids.size(), input.size());
  const uint32_t chunk = largestChunk(*model, engine, ids.size());
  engine.extraBytes =
      kIdsBytes * (ids.size() + input.size()) + LogitsFile::memoryBytes(shape, chunk);
  MOERT_ASSIGN_OR_RETURN(LoadedModel loaded,
                         loadModel(std::move(model), engine, options.engine.notices, {}));
  MOERT_ASSIGN_OR_RETURN(LogitsFile file, LogitsFile::create(options.output, shape, chunk));
  return computeLogits(loaded, input, options.prefixTokens, ids, file);
}

} // namespace

void addLogitsCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<LogitsOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command = app.add_subcommand("logits", "Write the logits of given tokens to a file");
  command->add_option("artifact", options->artifact, "The compiled model")
      ->type_name("OUT.moe")
      ->required();
  command
      ->add_option("--ids", options->idsFile,
                   "Token ids, separated by white space; - is "
                   "standard input")
      ->type_name("FILE")
      ->required()
      ->group("Input and output");
  command
      ->add_option("--decoder-ids", options->decoderIdsFile,
                   "The decoder's token ids, of a model with an encoder, whose input --ids has")
      ->type_name("FILE")
      ->group("Input and output");
  addCount(
      *command, "--prefix", 1, kMostTokens, [options](uint32_t n) { options->prefixTokens = n; },
      "First tokens that attend to each other, of a model with such a prefix")
      ->group("Input and output");
  command->add_option("-o,--output", options->output, "The file to write")
      ->type_name("OUT.safetensors")
      ->required()
      ->group("Input and output");
  addEngineFlags(*command, options->engine);
  command->footer(
      "Tensors for T tokens and a vocabulary of V: logits f32 [T, V]; for the L layers with routed "
      "experts, experts i32 and weights f32 [L, T, k], the router's k choices, best first, -1 "
      "where the "
      "capacity of an expert dropped a choice. Of an encoder: encoder_experts and "
      "encoder_weights.\n" +
      exampleFooter("moert logits qwen.moe --ids ids.txt -o logits.safetensors"));
  command->callback([options, &chosen] { chosen = [options] { return writeLogits(*options); }; });
}

} // namespace moert::cli
